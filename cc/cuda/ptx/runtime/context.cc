#include "cc/cuda/ptx/runtime/context.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "cc/cuda/ptx/assembler.h"
#include "cc/cuda/ptx/profile.h"
#include "cc/cuda/ptx/runtime/control.h"
#include "cc/cuda/ptx/runtime/fat_binary.h"

namespace tf_hsm {
namespace ptx {
namespace {

int NumberFrom(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

// It lives as long as the program, whose other objects free memory at the end.
Context& Context::Get() {
  static Context* const context = new Context;
  return *context;
}

Context::Context() {
  device_.rng.seed(NumberFrom("TF_HSM_PTX_SEED", 1));
  limits_.processors = NumberFrom("TF_HSM_PTX_PROCESSORS", limits_.processors);
  limits_.shared_bytes =
      NumberFrom("TF_HSM_PTX_SHARED_BYTES", limits_.shared_bytes);
  device_.finds_races = NumberFrom("TF_HSM_PTX_RACES", 1) != 0;
  device_.profiles = std::getenv("TF_HSM_PTX_PROFILE") != nullptr;
  std::atexit(&Context::ReportAtExit);
}

void Context::ReportAtExit() {
  Context& context = Get();
  if (const char* profile = std::getenv("TF_HSM_PTX_PROFILE")) {
    const bool with_lines = std::strcmp(profile, "lines") == 0;
    std::printf("%s", ProfileText(with_lines).c_str());
  }
  const auto findings = context.TakeFindings();
  for (const auto& [text, launches] : findings) {
    std::printf("FOUND in %lld launches: %s\n",
                static_cast<long long>(launches), text.c_str());
  }
  std::fflush(stdout);
  if (!findings.empty()) std::_Exit(EXIT_FAILURE);
}

int Context::AddModule(const void* fat_binary) {
  modules_.push_back({fat_binary, nullptr, {}});
  return static_cast<int>(modules_.size()) - 1;
}

void Context::AddKernel(int module, const void* host, const std::string& name) {
  KernelState& state = kernels_[host];
  state.module = module;
  state.name = name;
}

void Context::AllowSharedBytes(const void* host, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = kernels_.find(host);
  if (found != kernels_.end()) found->second.shared_bytes = bytes;
}

void Context::SetEdit(const Edit& edit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  edit_ = edit;
  for (auto& [host, state] : kernels_) state.kernel = nullptr;
  for (LoadedModule& loaded : modules_) loaded.module = nullptr;
}

Kernel* Context::Load(KernelState* state) {
  if (state->kernel != nullptr) return state->kernel.get();
  LoadedModule& loaded = modules_[state->module];
  if (loaded.module == nullptr) {
    const std::string text = PtxOf(loaded.fat_binary);
    loaded.module = std::make_unique<Module>(Parse(edit_ ? edit_(text) : text));
    for (const Global& global : loaded.module->globals) {
      if (loaded.globals.count(global.name) > 0) continue;
      const uint64_t address = device_.memory.Allocate(global.bytes.size());
      std::memcpy(reinterpret_cast<void*>(address), global.bytes.data(),
                  global.bytes.size());
      loaded.globals[global.name] = address;
    }
  }
  const auto entry = loaded.module->entries.find(state->name);
  if (entry == loaded.module->entries.end()) {
    throw Unsupported("no kernel " + state->name);
  }
  state->kernel = std::make_unique<Kernel>(
      Assembler(*loaded.module, entry->second, loaded.globals).Run());
  return state->kernel.get();
}

std::string Context::Launch(const void* host, const Grid& grid,
                            void** arguments) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = kernels_.find(host);
  if (found == kernels_.end()) return "an unknown kernel";
  KernelState& state = found->second;
  std::string error;
  try {
    Kernel* kernel = Load(&state);
    const Entry& entry = *kernel->entry;
    if (grid.threads > entry.max_threads) return "too many threads";
    const int64_t shared = SharedBytes(entry, grid.dynamic_shared_bytes);
    if (shared > state.shared_bytes || shared > limits_.shared_bytes) {
      return "too much shared memory";
    }
    std::vector<char> parameters(entry.parameters.end);
    for (size_t i = 0; i < entry.parameters.variables.size(); ++i) {
      const Variable& parameter = entry.parameters.variables[i];
      std::memcpy(parameters.data() + parameter.offset, arguments[i],
                  parameter.bytes);
    }
    ++state.launches;
    state.blocks += grid.blocks;
    error = ptx::Launch(kernel, grid, parameters, &device_);
  } catch (const Unsupported& unsupported) {
    error = std::string("not supported, ") + unsupported.what();
    device_.findings.Add(error);
  }
  // At once: without the results, the program may not get to its end.
  if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
  return error;
}

std::map<std::string, int64_t> Context::TakeFindings() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return device_.findings.Take();
}

uint64_t Context::Allocate(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return device_.memory.Allocate(bytes);
}

bool Context::Free(uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return device_.memory.Free(address);
}

bool Context::HasBytes(const void* address, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return device_.memory.Find(reinterpret_cast<uint64_t>(address), bytes) !=
         nullptr;
}

void Context::StartProfile() {
  const std::lock_guard<std::mutex> lock(mutex_);
  device_.profiles = true;
  for (auto& [host, state] : kernels_) {
    state.launches = state.blocks = 0;
    if (state.kernel == nullptr) continue;
    state.kernel->counts.assign(state.kernel->counts.size(), 0);
  }
}

std::vector<KernelProfile> Context::Profiles() const {
  std::vector<KernelProfile> profiles;
  for (const auto& [host, state] : kernels_) {
    if (state.kernel == nullptr || state.launches == 0) continue;
    profiles.push_back({state.kernel.get(), state.launches, state.blocks});
  }
  return profiles;
}

void SetEdit(const Edit& edit) { Context::Get().SetEdit(edit); }

std::map<std::string, int64_t> TakeFindings() {
  return Context::Get().TakeFindings();
}

void StartProfile() { Context::Get().StartProfile(); }

std::map<std::string, int64_t> WarpInstructions() {
  std::map<std::string, int64_t> result;
  for (const KernelProfile& profile : Context::Get().Profiles()) {
    result[Readable(profile.kernel->entry->name)] +=
        std::accumulate(profile.kernel->counts.begin(),
                        profile.kernel->counts.end(), int64_t{0});
  }
  return result;
}

std::string ProfileText(bool with_lines) {
  const std::vector<KernelProfile> profiles = Context::Get().Profiles();
  std::string text = KernelTable(profiles);
  if (with_lines) text += "\n" + LineTable(profiles);
  return text;
}

}  // namespace ptx
}  // namespace tf_hsm
