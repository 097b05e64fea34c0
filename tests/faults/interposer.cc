// Makes one call of the C library fail: an allocation of the op library's, or a
// call that writes to a folder. Preloaded into a Python process, which arms it:
//
//   Arm(n)            from now on, count; the n-th counted call fails
//   ArmFolder(f, n, e, all)  the same of calls that write below the folder f;
//                     the error is e, and with `all` later calls fail as well
//   Disarm()          returns how many were counted
//   Fired()           whether the n-th came
//
// Allocations count whose stack has a function of the op library. Three kinds
// do not, which end the process if they fail: those that the C library makes
// for itself, those of TensorFlow's Python binding when a variable lets go of a
// NumPy array, and what Abseil maps for its locks.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cstdint>
#include <new>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* __libc_malloc(size_t);
EXPORT void* __libc_calloc(size_t, size_t);
EXPORT void* __libc_realloc(void*, size_t);
EXPORT void* __libc_memalign(size_t, size_t);

namespace {

enum Kind { kNothing, kMemory, kDisk };

struct Range {
  uintptr_t begin = 0, end = 0;
  bool Has(uintptr_t at) const { return at >= begin && at < end; }
};

std::atomic<int> armed{kNothing};
std::atomic<long> target{0}, counted{0};  // NOLINT(runtime/int)
Range op_library, c_library, loader, binding, own;
char folder[PATH_MAX];
int disk_error = ENOSPC;
bool all_fail = false;

// Whether the thread is within this file.
__thread bool inside __attribute__((tls_model("initial-exec"))) = false;

int FindRanges(dl_phdr_info* info, size_t, void*) {
  Range range;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (range.begin == 0) range.begin = begin;
    range.end = begin + header.p_memsz;
  }
  const char* name = info->dlpi_name;
  if (strstr(name, "_tf_hsm_ops.so")) op_library = range;
  if (strstr(name, "/libc.so")) c_library = range;
  if (strstr(name, "/ld-linux")) loader = range;
  if (strstr(name, "lib_pywrap_tensorflow_common")) binding = range;
  if (range.Has(reinterpret_cast<uintptr_t>(&FindRanges))) own = range;
  return 0;
}

struct Walk {
  int depth = 0;
  bool first = true, found = false;
};

_Unwind_Reason_Code Step(_Unwind_Context* context, void* data) {
  constexpr int kMaxDepth = 40;  // of TensorFlow's frames above ours
  Walk& walk = *static_cast<Walk*>(data);
  const uintptr_t at = _Unwind_GetIP(context);
  if (own.Has(at)) return _URC_NO_REASON;
  if (walk.first && (c_library.Has(at) || loader.Has(at))) {
    return _URC_END_OF_STACK;
  }
  if (binding.Has(at)) return _URC_END_OF_STACK;
  walk.first = false;
  walk.found = op_library.Has(at);
  return walk.found || ++walk.depth > kMaxDepth ? _URC_END_OF_STACK
                                                : _URC_NO_REASON;
}

// Counts a call; whether it is the one to fail.
bool IsTarget() {
  const long number = ++counted;  // NOLINT(runtime/int)
  return number == target || (all_fail && target > 0 && number > target);
}

bool MemoryFails() {
  if (armed != kMemory || inside) return false;
  inside = true;
  Walk walk;
  _Unwind_Backtrace(Step, &walk);
  inside = false;
  return walk.found && IsTarget();
}

bool IsBelow(const char* path) {
  const size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0;
}

// Whether a call on this path fails, which must be absolute.
bool PathFails(const char* path) {
  if (armed != kDisk || inside || path == nullptr) return false;
  return IsBelow(path) && IsTarget();
}

bool FileFails(int file) {
  if (armed != kDisk || inside) return false;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return false;
  path[size] = 0;
  return IsBelow(path) && IsTarget();
}

template <typename Function>
Function* Next(Function*, const char* name) {
  inside = true;
  auto* next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  inside = false;
  return next;
}
#define NEXT(name) Next(&name, #name)

template <typename Result>
Result Failed(Result result) {
  errno = disk_error;
  return result;
}

constexpr int kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

}  // namespace

EXPORT void Arm(long n) {  // NOLINT(runtime/int)
  inside = true;
  dl_iterate_phdr(FindRanges, nullptr);
  inside = false;
  counted = 0;
  target = n;
  all_fail = false;
  armed = kMemory;
}

EXPORT void ArmFolder(const char* path, long n,  // NOLINT(runtime/int)
                      int error, int all) {
  snprintf(folder, sizeof(folder), "%s", path);
  disk_error = error;
  all_fail = all != 0;
  counted = 0;
  target = n;
  armed = kDisk;
}

EXPORT long Disarm() {  // NOLINT(runtime/int)
  armed = kNothing;
  return counted;
}

EXPORT int Fired() { return target > 0 && counted >= target; }

// Memory.

EXPORT void* malloc(size_t size) {
  return MemoryFails() ? nullptr : __libc_malloc(size);
}
EXPORT void* calloc(size_t count, size_t size) {
  return MemoryFails() ? nullptr : __libc_calloc(count, size);
}
EXPORT void* realloc(void* data, size_t size) {
  return MemoryFails() ? nullptr : __libc_realloc(data, size);
}
EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  return MemoryFails() ? nullptr : __libc_memalign(alignment, size);
}
EXPORT void* memalign(size_t alignment, size_t size) {
  return MemoryFails() ? nullptr : __libc_memalign(alignment, size);
}
EXPORT int posix_memalign(void** data, size_t alignment, size_t size) {
  if (MemoryFails()) return ENOMEM;
  *data = __libc_memalign(alignment, size);
  return *data == nullptr ? ENOMEM : 0;
}
EXPORT void* mmap(void* at, size_t size, int protection, int flags, int file,
                  off_t offset) {
  static const auto next = NEXT(mmap);
  const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (file == -1 && op_library.Has(caller) && MemoryFails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return next(at, size, protection, flags, file, offset);
}

// The disk.

// A call that fails where `fails` says so.
#define FAILS(fails, result, name, parameters, arguments) \
  EXPORT result name parameters {                         \
    static const auto next = NEXT(name);                  \
    return fails ? Failed<result>(-1) : next arguments;   \
  }
FAILS(FileFails(file), ssize_t, write,
      (int file, const void* data, size_t size), (file, data, size))
FAILS(FileFails(file), ssize_t, pwrite,
      (int file, const void* data, size_t size, off_t at),
      (file, data, size, at))
FAILS(FileFails(file), ssize_t, pwrite64,
      (int file, const void* data, size_t size, off64_t at),
      (file, data, size, at))
FAILS(FileFails(file), ssize_t, writev,
      (int file, const iovec* parts, int count), (file, parts, count))
FAILS(FileFails(to), ssize_t, sendfile,
      (int to, int from, off_t* at, size_t size), (to, from, at, size))
FAILS(FileFails(to), ssize_t, sendfile64,
      (int to, int from, off64_t* at, size_t size), (to, from, at, size))
FAILS(FileFails(to), ssize_t, copy_file_range,
      (int from, off64_t* from_at, int to, off64_t* to_at, size_t size,
       unsigned flags),
      (from, from_at, to, to_at, size, flags))
FAILS(FileFails(file), int, ftruncate, (int file, off_t size), (file, size))
FAILS(FileFails(file), int, ftruncate64, (int file, off64_t size), (file, size))
FAILS(FileFails(file), int, fsync, (int file), (file))
FAILS(FileFails(file), int, fdatasync, (int file), (file))
// As some file systems do, it fails only when all is closed.
EXPORT int close(int file) {
  static const auto next = NEXT(close);
  const bool fails =
      (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY && FileFails(file);
  const int result = next(file);
  return fails ? Failed(-1) : result;
}
EXPORT size_t fwrite(const void* data, size_t size, size_t count, FILE* file) {
  static const auto next = NEXT(fwrite);
  return FileFails(fileno(file)) ? Failed(size_t{0})
                                 : next(data, size, count, file);
}
EXPORT int fflush(FILE* file) {
  static const auto next = NEXT(fflush);
  return file != nullptr && FileFails(fileno(file)) ? Failed(EOF) : next(file);
}
EXPORT int fclose(FILE* file) {
  static const auto next = NEXT(fclose);
  const bool fails = (fcntl(fileno(file), F_GETFL) & O_ACCMODE) != O_RDONLY &&
                     FileFails(fileno(file));
  const int result = next(file);
  return fails ? Failed(EOF) : result;
}
EXPORT FILE* fopen(const char* path, const char* mode) {
  static const auto next = NEXT(fopen);
  const bool fails = strpbrk(mode, "wa+") != nullptr && PathFails(path);
  return fails ? Failed<FILE*>(nullptr) : next(path, mode);
}
EXPORT FILE* fopen64(const char* path, const char* mode) {
  static const auto next = NEXT(fopen64);
  const bool fails = strpbrk(mode, "wa+") != nullptr && PathFails(path);
  return fails ? Failed<FILE*>(nullptr) : next(path, mode);
}

#define OPENS(name, parameters, arguments)                        \
  EXPORT int name parameters {                                    \
    static const auto next = NEXT(name);                          \
    mode_t mode = 0;                                              \
    if (flags & (O_CREAT | O_TMPFILE)) {                          \
      va_list list;                                               \
      va_start(list, flags);                                      \
      mode = va_arg(list, mode_t);                                \
      va_end(list);                                               \
    }                                                             \
    const bool fails = (flags & kWrites) != 0 && PathFails(path); \
    return fails ? Failed(-1) : next arguments;                   \
  }
OPENS(open, (const char* path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char* path, int flags, ...), (path, flags, mode))
OPENS(openat, (int at, const char* path, int flags, ...),
      (at, path, flags, mode))
OPENS(openat64, (int at, const char* path, int flags, ...),
      (at, path, flags, mode))

FAILS(PathFails(to), int, rename, (const char* from, const char* to),
      (from, to))
FAILS(PathFails(to), int, renameat,
      (int from_at, const char* from, int to_at, const char* to),
      (from_at, from, to_at, to))
FAILS(PathFails(path), int, mkdir, (const char* path, mode_t mode),
      (path, mode))
FAILS(PathFails(path), int, mkdirat, (int at, const char* path, mode_t mode),
      (at, path, mode))
