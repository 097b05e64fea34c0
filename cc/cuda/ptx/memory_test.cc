// Loads, stores, atomic operations and copies: their results, and accesses
// that are out of bounds or not aligned.

#include <string>
#include <vector>

#include "cc/cuda/ptx/ptx_test_support.h"

namespace tf_hsm {
namespace ptx {
namespace {

// Runs one thread on an array of bytes 0x80, 0x81, ... and returns it.
std::vector<uint8_t> RunOnBytes(const std::string& body, Found* found,
                                int64_t shared_bytes = 64) {
  TestDevice device;
  std::vector<uint8_t> bytes(64);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = 0x80 + i;
  const uint64_t out = device.Upload(bytes);
  *found = device.Run(body, {1, 1, shared_bytes}, {out});
  return TestDevice::Download<uint8_t>(out, bytes.size());
}

// The 64-bit number at byte 56 behind `body`.
void CheckLoaded(const std::string& body, uint64_t want) {
  Found found;
  const auto bytes =
      RunOnBytes(body + " st.global.u64 [%rd0+56], %rd9;", &found);
  ExpectClean(found, body);
  uint64_t got;
  std::memcpy(&got, bytes.data() + 56, 8);
  Expect(got == want, body + ": " + std::to_string(got));
}

void CheckFails(const std::string& body,
                const std::vector<std::string>& words) {
  Found found;
  RunOnBytes("\n\n" + body, &found);
  std::vector<std::string> all = words;
  all.push_back("line 14");
  ExpectFound(found, body, all);
}

void CheckLoads() {
  CheckLoaded("ld.global.u8 %rd9, [%rd0+1];", 0x81);
  CheckLoaded("ld.global.s8 %rd9, [%rd0+1];", ~uint64_t{0x7e});
  CheckLoaded("ld.global.s16 %r1, [%rd0]; cvt.u64.u32 %rd9, %r1;", 0xffff8180);
  CheckLoaded("ld.global.s32 %rd9, [%rd0+4];", 0xffffffff87868584);
  CheckLoaded("ld.global.nc.b64 %rd9, [%rd0];", 0x8786858483828180);
  CheckLoaded(
      "add.s64 %rd1, %rd0, 16; ld.u16 %rs1, [%rd1+-2];"
      "cvt.u64.u16 %rd9, %rs1;",
      0x8f8e);
  CheckLoaded(
      "ld.global.v2.u32 {%r1, %r2}, [%rd0+8];"
      "mov.b64 %rd9, {%r2, %r1};",
      0x8b8a89888f8e8d8c);
  CheckLoaded(
      "ld.global.v4.u16 {%rs1, %rs2, %rs3, %rs4}, [%rd0];"
      "cvt.u64.u16 %rd9, %rs3;",
      0x8584);
  CheckLoaded(
      "ld.global.v4.u8 {%rs1, _, %rs3, _}, [%rd0];"
      "cvt.u64.u16 %rd9, %rs3;",
      0x82);
}

void CheckStores() {
  Found found;
  const auto bytes = RunOnBytes(
      "mov.u32 %r1, 0x11223344; st.global.u8 [%rd0+1], %r1;"
      "st.global.v2.u16 [%rd0+4], {7, 8};"
      "mov.u32 %r2, dynamic; st.shared.u32 [%r2+4], %r1;"
      "ld.shared.u16 %rs1, [%r2+6]; st.global.u16 [%rd0+8], %rs1;"
      // A generic address of shared memory.
      "cvt.u64.u32 %rd1, %r2; cvta.shared.u64 %rd2, %rd1;"
      "ld.u8 %rs2, [%rd2+5]; st.global.u16 [%rd0+10], %rs2;",
      &found);
  ExpectClean(found, "stores");
  const std::vector<uint8_t> want = {0x80, 0x44, 0x82, 0x83, 7, 0,   8,
                                     0,    0x22, 0x11, 0x33, 0, 0x8c};
  for (size_t i = 0; i < want.size(); ++i) {
    Expect(bytes[i] == want[i], "stored byte " + std::to_string(i));
  }
}

void CheckBounds() {
  CheckFails("ld.global.u32 %r1, [%rd0+64];", {"out of every allocation"});
  CheckFails("ld.global.u32 %r1, [%rd0+-4];", {"out of every allocation"});
  CheckFails("ld.global.v2.u64 {%rd1, %rd2}, [%rd0+8];",
             {"not aligned in global memory"});
  CheckFails("st.global.u16 [%rd0+3], 0;", {"not aligned in global memory"});
  CheckFails("mov.u32 %r1, dynamic; st.shared.u32 [%r1+64], 0;",
             {"out of shared memory"});
  CheckFails("mov.u32 %r1, dynamic; st.shared.u32 [%r1+-4], 0;",
             {"out of shared memory"});
  CheckFails("mov.u32 %r1, dynamic; ld.shared.v2.u32 {%r1, %r2}, [%r1+4];",
             {"not aligned in shared memory"});
  CheckFails("ld.param.u64 %rd1, [p0+8];", {"out of the parameters"});
  CheckFails("ld.shared.f32 %f1, [%rd0];", {"out of shared memory"});
  CheckFails("mov.u64 %rd1, 0; ld.f32 %f1, [%rd1];",
             {"out of every allocation"});
  CheckFails("trap;", {"stops itself"});
}

void CheckAtomics() {
  TestDevice device;
  const std::vector<uint32_t> start = {5, 100, 0, 7, 0xf0};
  const uint64_t out = device.Upload(start);
  ExpectClean(device.Run("atom.global.add.u32 %r1, [%rd0], 2;"
                         "atom.global.max.u32 %r2, [%rd0+4], %r0;"
                         "atom.global.or.b32 %r3, [%rd0+8], %r0;"
                         "atom.global.cas.b32 %r4, [%rd0+12], 7, 9;"
                         "red.global.min.s32 [%rd0+16], %r0;",
                         {2, 96}, {out}),
              "atomic operations");
  const auto got = TestDevice::Download<uint32_t>(out, start.size());
  const std::vector<uint32_t> want = {5 + 2 * 192, 100, 127, 9, 0};
  for (size_t i = 0; i < want.size(); ++i) {
    Expect(got[i] == want[i], "atomic operation " + std::to_string(i) + ": " +
                                  std::to_string(got[i]));
  }
}

// Each thread copies 4 bytes, thread 5 none and thread 6 two of them.
const char kCopy[] =
    "mov.u32 %r80, dynamic; mad.lo.u32 %r8, %r0, 4, %r80;"
    "mad.wide.u32 %rd1, %r0, 4, %rd0; mov.u32 %r1, 4;"
    "setp.eq.u32 %p1, %r0, 5; @%p1 mov.u32 %r1, 0;"
    "setp.eq.u32 %p2, %r0, 6; @%p2 mov.u32 %r1, 2;"
    "cp.async.ca.shared.global [%r8], [%rd1], 4, %r1;\n"
    "cp.async.commit_group;\n";

Found RunCopy(const std::string& rest, uint64_t seed,
              std::vector<uint32_t>* result) {
  TestDevice device(seed);
  std::vector<uint32_t> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0x10001 * (i + 1);
  const uint64_t out = device.Upload(values);
  const Found found = device.Run(kCopy + rest, {1, 64, 256}, {out});
  *result = TestDevice::Download<uint32_t>(out, 64);
  return found;
}

void CheckCopies() {
  std::vector<uint32_t> result;
  const std::string give = "st.global.u32 [%rd1], %r9;";
  for (uint64_t seed = 1; seed < 9; ++seed) {
    ExpectClean(RunCopy("cp.async.wait_group 0; ld.shared.u32 %r9, [%r8];"
                        "add.u32 %r9, %r9, 1;" +
                            give,
                        seed, &result),
                "copies");
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t want = i == 5 ? 0 : i == 6 ? 7 : 0x10001 * (i + 1);
      Expect(result[i] == want + 1, "copied " + std::to_string(i));
    }
    // To another thread, behind a barrier.
    ExpectClean(
        RunCopy("cp.async.wait_group 0; bar.sync 0; xor.b32 %r2, %r8, 4;"
                "ld.shared.u32 %r9, [%r2]; bar.sync 0;" +
                    give,
                seed, &result),
        "copies of others");
    Expect(result[0] == 0x20002, "a copy of another");
    ExpectFound(RunCopy("ld.shared.u32 %r9, [%r8];\ncp.async.wait_group 0;",
                        seed, &result),
                "a read before the wait", {"may not have reached", "line 14"});
    ExpectFound(RunCopy("cp.async.wait_group 1; ld.shared.u32 %r9, [%r8];"
                        "cp.async.wait_group 0;",
                        seed, &result),
                "a wait for one fewer", {"may not have reached"});
    ExpectFound(RunCopy("cp.async.wait_group 0; xor.b32 %r2, %r8, 4;\n"
                        "ld.shared.u32 %r9, [%r2];",
                        seed, &result),
                "no barrier", {"a read after a write", "line 15"});
    ExpectFound(RunCopy("", seed, &result), "no wait", {"never waited for"});
  }
  CheckFails(
      "mov.u32 %r1, dynamic;"
      "cp.async.cg.shared.global [%r1+8], [%rd0], 16, 16;",
      {"not aligned in shared memory"});
  CheckFails(
      "mov.u32 %r1, dynamic;"
      "cp.async.ca.shared.global [%r1], [%rd0], 4, 5;",
      {"more bytes"});
  Found found;
  RunOnBytes(
      "mov.u32 %r1, dynamic; add.s64 %rd1, %rd0, 8;\n"
      "cp.async.cg.shared.global [%r1], [%rd1], 16; "
      "cp.async.commit_group; cp.async.wait_group 0;",
      &found);
  Expect(found.size() == 1 &&
             found.begin()->first.find("not aligned in global memory") == 0,
         "a copy from an address that is not aligned");
}

}  // namespace
}  // namespace ptx
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm::ptx;  // NOLINT
  CheckLoads();
  CheckStores();
  CheckBounds();
  CheckAtomics();
  CheckCopies();
  return tf_hsm::Summarize();
}
