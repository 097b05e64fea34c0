// Races: each is found, with both lines, and what is ordered is none.

#include <string>
#include <vector>

#include "cc/cuda/ptx/ptx_test_support.h"

namespace tf_hsm {
namespace ptx {
namespace {

// Shared memory has a word per thread, at %r8 its own, at %r7 the word of
// its neighbour in the warp, at %r6 the other warp's. Global memory
// likewise at %rd8, %rd7 and %rd6, %rd5 that of the other block.
const char kBegin[] =
    "mov.u32 %r80, dynamic; mad.lo.u32 %r8, %r0, 4, %r80; xor.b32 %r7, %r8, 4;"
    "xor.b32 %r6, %r8, 128; mov.u32 %r81, %ctaid.x; mad.lo.u32 %r81, %r81, 64,"
    "%r0; mad.wide.u32 %rd8, %r81, 4, %rd0; xor.b64 %rd7, %rd8, 4;"
    "xor.b64 %rd6, %rd8, 128; xor.b32 %r82, %r81, 64;"
    "mad.wide.u32 %rd5, %r82, 4, %rd0;\n";

Found RunBody(const std::string& body, uint64_t seed) {
  TestDevice device(seed);
  return device.Run(kBegin + body, {2, 64, 256},
                    {device.Upload(std::vector<uint32_t>(128))});
}

// Every finding has all of the words: which of two accesses is the second may
// depend on the order of warps and blocks.
void ExpectRace(const std::string& body, const std::string& what,
                const std::vector<std::string>& words = {}) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    const Found found = RunBody(body, seed);
    bool good = !found.empty();
    for (const auto& [text, launches] : found) {
      good = good && text.find("a race, " + what) == 0;
      for (const std::string& word : words) {
        good = good && text.find(word) != std::string::npos;
      }
    }
    Expect(good, body);
    if (good) continue;
    for (const auto& [text, launches] : found) {
      std::printf("  %s\n", text.c_str());
    }
  }
}

void ExpectOrdered(const std::string& body) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    ExpectClean(RunBody(body, seed), body);
  }
}

// The first access is in line 13, the second in line 14 or behind.
void CheckBetween(const std::string& first, const std::string& second,
                  const std::string& what, const std::string& order) {
  ExpectRace(first + "\n" + second, what);
  ExpectOrdered(first + "\n" + order + second);
}

void CheckShared() {
  const std::string write = "st.shared.u32 [%r8], %r0;",
                    read = "ld.shared.u32 %r9, [%r8];",
                    read_lane = "ld.shared.u32 %r9, [%r7];",
                    write_lane = "st.shared.u32 [%r7], %r0;",
                    read_warp = "ld.shared.u32 %r9, [%r6];",
                    write_warp = "st.shared.u32 [%r6], %r0;";
  const std::string barrier = "bar.sync 0;", lanes = "bar.warp.sync -1;";
  ExpectOrdered(write + read + write);
  CheckBetween(write, read_lane, "a read after a write", lanes);
  CheckBetween(write, read_lane, "a read after a write", barrier);
  CheckBetween(read, write_lane, "a write after a read", lanes);
  CheckBetween(write, write_lane, "a write after a write", lanes);
  // The warps' order decides which of two accesses is the second.
  CheckBetween(write, write_warp, "a write after a write", barrier);
  ExpectRace(write + "\n" + lanes + write_warp, "a write after a write");
  ExpectOrdered(write + barrier + read_warp + barrier + write_warp);
  ExpectRace(write + barrier + read_warp + "\n" + write, "a ");
  // A shuffle lets lanes meet, but orders no memory.
  ExpectRace(write + "shfl.sync.idx.b32 %r9, %r0, 0, 31, -1;" + read_lane,
             "a read after a write");
  // Some lanes of a warp.
  ExpectRace(
      write + "setp.lt.u32 %p1, %r0, 1; @%p1 bar.warp.sync 1;" + read_lane,
      "a read after a write");
  // All lanes write one word.
  ExpectRace("st.shared.u32 [%r80], 1;", "a write after a write");
  ExpectOrdered("ld.shared.u32 %r9, [%r80];");
  // Neighbours write 16 bits each, which do not overlap.
  ExpectOrdered("mad.lo.u32 %r1, %r0, 2, %r80; st.shared.u16 [%r1], %rs1;");
  // Many readers, one of which writes.
  ExpectRace(
      "ld.shared.u32 %r9, [%r80]; setp.eq.u32 %p1, %r0, 0;\n"
      "@%p1 st.shared.u32 [%r80], 1;",
      "a ");
}

void CheckGlobal() {
  const std::string write = "st.global.u32 [%rd8], %r0;",
                    read_lane = "ld.global.u32 %r9, [%rd7];",
                    write_lane = "st.global.u32 [%rd7], %r0;",
                    read_block = "ld.global.u32 %r9, [%rd5];",
                    write_block = "st.global.u32 [%rd5], %r0;";
  CheckBetween(write, read_lane, "a read after a write", "bar.warp.sync -1;");
  CheckBetween(write, write_lane, "a write after a write", "bar.sync 0;");
  // Nothing orders blocks.
  ExpectRace(write + "bar.sync 0;\n" + write_block, "a write after a write");
  ExpectOrdered("ld.global.u32 %r9, [%rd0];" + read_block);
  ExpectRace(
      "ld.global.u32 %r9, [%rd0]; bar.sync 0;\n"
      "setp.eq.u32 %p1, %r81, 0; @%p1 st.global.u32 [%rd0], 1;",
      "a ");  // a read or a write is the first
  ExpectOrdered("atom.global.add.u32 %r9, [%rd0], 1;");
  ExpectOrdered(
      "st.relaxed.gpu.u32 [%rd0], %r0; ld.relaxed.gpu.u32 %r9, [%rd0];");
  ExpectRace("st.relaxed.gpu.u32 [%rd0], %r0;\nld.global.u32 %r9, [%rd0];",
             "a ");
}

// Blocks that pass results on as CUB's scans do: block 1 loads the flag that
// block 0 stored.
void CheckOrderOfBlocks() {
  const std::string pass =
      "setp.ne.u32 %p1, %r81, %r0; @%p1 bra LATER;\n"  // of block 0
      "st.global.u32 [%rd8], 5; membar.gl;"
      "st.release.gpu.u32 [%rd0+508], 1; bra END;\nLATER: ";
  const std::string load = "ld.global.u32 %r9, [%rd5];\nEND:";
  ExpectOrdered("setp.ne.u32 %p2, %r0, 0; @%p2 ret;" + pass +
                "ld.relaxed.gpu.u32 %r1, [%rd0+508];" + load);
  ExpectRace("setp.ne.u32 %p2, %r0, 0; @%p2 ret;" + pass +
                 "ld.relaxed.gpu.u32 %r1, [%rd0+504];" + load,
             "a ");
  // An atomic operation passes nothing on.
  ExpectRace("setp.ne.u32 %p2, %r0, 0; @%p2 ret;" + pass +
                 "atom.global.add.u32 %r1, [%rd0+508], 0;" + load,
             "a ");
}

void CheckLines() {
  ExpectRace(
      "st.shared.u32 [%r8], %r0;\nbar.warp.sync -1;\nst.shared.u32 [%r6], %r9;",
      "a write after a write", {"line 13", "line 15", "of test"});
}

// A launch is over when the next begins.
void CheckLaunches() {
  TestDevice device;
  const uint64_t out = device.Upload(std::vector<uint32_t>(64));
  const std::string write =
      "mad.wide.u32 %rd1, %r0, 4, %rd0;"
      "st.global.u32 [%rd1], %r0;";
  const std::string read = "ld.global.u32 %r1, [%rd0];";
  ExpectClean(device.Run(write, {1, 64}, {out}), "a launch");
  ExpectClean(device.Run(read, {3, 64}, {out}), "the next");
  ExpectClean(device.Run(write, {1, 64}, {out}), "the one behind");
  // With another granule.
  ExpectClean(device.Run("st.global.u8 [%rd0], 1;", {1, 1}, {out}), "bytes");
}

}  // namespace
}  // namespace ptx
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm::ptx;  // NOLINT
  CheckShared();
  CheckGlobal();
  CheckOrderOfBlocks();
  CheckLines();
  CheckLaunches();
  return tf_hsm::Summarize();
}
