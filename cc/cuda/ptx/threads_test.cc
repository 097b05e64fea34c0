// Branches, barriers, and what the lanes of a warp do together.

#include <string>
#include <vector>

#include "cc/cuda/ptx/ptx_test_support.h"

namespace tf_hsm {
namespace ptx {
namespace {

constexpr int kThreads = 64;

// Runs `code`, which leaves a result of each thread in %r9, in several orders
// of the warps; dynamic shared memory has a word per thread, at %r8 the
// thread's own.
template <typename Expected>
void Check(const std::string& code, const Expected& expected,
           int threads = kThreads, int blocks = 1) {
  const std::string body =
      "mov.u32 %r80, dynamic; mad.lo.u32 %r8, %r0, 4, %r80;\n" + code +
      "\nmov.u32 %r81, %ctaid.x; mov.u32 %r82, %ntid.x;"
      "mad.lo.u32 %r81, %r81, %r82, %r0; mad.wide.u32 %rd1, %r81, 4, %rd0;"
      "st.global.u32 [%rd1], %r9;";
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    TestDevice device(seed);
    const size_t count = static_cast<size_t>(threads) * blocks;
    const uint64_t out = device.Upload(std::vector<uint32_t>(count));
    ExpectClean(device.Run(body, {blocks, threads, 4 * threads}, {out}), code);
    const auto got = TestDevice::Download<uint32_t>(out, count);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t want = expected(static_cast<uint32_t>(i));
      Expect(got[i] == want, code + " of " + std::to_string(i) + ": " +
                                 std::to_string(got[i]) + " for " +
                                 std::to_string(want));
    }
  }
}

Found RunBody(const std::string& body, int threads = kThreads) {
  TestDevice device;
  const uint64_t out = device.Upload(std::vector<uint32_t>(threads));
  return device.Run(body, {1, threads, 4 * threads}, {out});
}

void CheckBranches() {
  Check(
      "mov.u32 %r9, 5; setp.lt.u32 %p1, %r0, 40; @%p1 bra LESS;\n"
      "mov.u32 %r9, 6; bra END;\nLESS: add.u32 %r9, %r9, %r0;\nEND:",
      [](uint32_t i) { return i < 40 ? 5 + i : 6; });
  // As many turns as the thread's number says.
  Check(
      "mov.u32 %r9, 0; mov.u32 %r1, 0;\nLOOP: setp.ge.u32 %p1, %r1, %r0;\n"
      "@%p1 bra END; add.u32 %r1, %r1, 1; add.u32 %r9, %r9, %r1;\n"
      "bra.uni LOOP;\nEND:",
      [](uint32_t i) { return i * (i + 1) / 2; });
  Check(
      "mov.u32 %r9, %ctaid.x; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %laneid;"
      "mad.lo.u32 %r9, %r9, 100, %r1; mad.lo.u32 %r9, %r9, 100, %r2;",
      [](uint32_t i) { return (i / 40 * 100 + 3) * 100 + i % 40 % 32; }, 40, 3);
  Check("mov.u32 %r9, 1; setp.eq.u32 %p1, %r0, 3; @!%p1 mov.u32 %r9, 2;",
        [](uint32_t i) { return i == 3 ? 1u : 2u; });
}

void CheckBarriers() {
  Check(
      "st.shared.u32 [%r8], %r0; bar.sync 0;\n"
      "mov.u32 %r1, 63; sub.u32 %r1, %r1, %r0;"
      "mad.lo.u32 %r1, %r1, 4, %r80; ld.shared.u32 %r9, [%r1];",
      [](uint32_t i) { return 63 - i; });
  Check(
      "setp.eq.u32 %p1, %r0, 50; bar.red.or.pred %p2, 0, %p1;"
      "bar.red.and.pred %p3, 0, %p1; selp.u32 %r9, 1, 0, %p2;"
      "selp.u32 %r1, 2, 0, %p3; add.u32 %r9, %r9, %r1;",
      [](uint32_t) { return 1; });
  ExpectFound(RunBody("setp.lt.u32 %p1, %r0, 32; @%p1 bra A;\nbar.sync 0;\n"
                      "bra B;\nA: bar.sync 0;\nB:"),
              "another barrier", {"different barriers", "line 13", "line 15"});
  ExpectFound(RunBody("setp.eq.u32 %p1, %r0, 9; @%p1 ret;\n bar.sync 0;"),
              "an early end", {"ended before a barrier", "line 13"});
  ExpectFound(RunBody("setp.eq.u32 %p1, %r0, 9; @%p1 bra A;\n"
                      "bar.warp.sync 0xffffffff;\nA: bar.sync 0;"),
              "lanes apart", {"others that do not come", "line 13"});
}

void CheckShuffles() {
  Check("shfl.sync.bfly.b32 %r9|%p1, %r0, 5, 31, -1;",
        [](uint32_t i) { return i ^ 5; });
  Check("shfl.sync.idx.b32 %r9, %r0, 7, 31, 0xffffffff;",
        [](uint32_t i) { return i / 32 * 32 + 7; });
  Check("shfl.sync.up.b32 %r9|%p1, %r0, 3, 0, -1; @!%p1 mov.u32 %r9, 99;",
        [](uint32_t i) { return i % 32 < 3 ? 99 : i - 3; });
  // In segments of 8 lanes.
  Check("shfl.sync.down.b32 %r9|%p1, %r0, 2, 6175, -1; @!%p1 mov.u32 %r9, 99;",
        [](uint32_t i) { return i % 8 > 5 ? 99 : i + 2; });
  // Half of a warp alone.
  Check(
      "mov.u32 %r9, 1; setp.lt.u32 %p1, %r0, 16; @!%p1 bra END;\n"
      "shfl.sync.bfly.b32 %r9, %r0, 1, 31, 0xffff;\nEND:",
      [](uint32_t i) { return i < 16 ? i ^ 1 : 1; });
  ExpectFound(RunBody("shfl.sync.idx.b32 %r9, %r0, 20, 31, 0xffff;", 16),
              "a lane that is none", {"not a member is read", "shfl"});
  ExpectFound(RunBody("setp.lt.u32 %p1, %r0, 16; @%p1 bra A;\n"
                      "shfl.sync.idx.b32 %r9, %r0, 20, 31, -1;\nA:"),
              "lanes that do not come", {"do not come", "line 13", "shfl"});
  ExpectFound(RunBody("shfl.sync.idx.b32 %r9, %r0, 1, 31, %r0;"),
              "wrong members", {"not a member"});
}

void CheckVotes() {
  Check("setp.gt.u32 %p1, %r0, 40; vote.sync.ballot.b32 %r9, %p1, -1;",
        [](uint32_t i) { return i < 32 ? 0 : 0xfffffe00u; });
  Check(
      "setp.gt.u32 %p1, %r0, 40; vote.any.sync.pred %p2, %p1, -1;"
      "vote.sync.all.pred %p3, %p1, -1; selp.u32 %r9, 1, 0, %p2;"
      "@%p3 mov.u32 %r9, 2;",
      [](uint32_t i) { return i < 32 ? 0 : 1; });
  Check("rem.u32 %r1, %r0, 3; match.any.sync.b32 %r9, %r1, -1;",
        [](uint32_t i) {
          uint32_t same = 0;
          for (uint32_t k = 0; k < 32; ++k) {
            if ((i / 32 * 32 + k) % 3 == i % 3) same |= 1u << k;
          }
          return same;
        });
  // One instruction, another group of lanes for each remainder.
  Check(
      "rem.u32 %r1, %r0, 3; match.any.sync.b32 %r2, %r1, -1;\n"
      "st.shared.u32 [%r8], %r0; bar.warp.sync %r2; clz.b32 %r3, %r2;"
      "mov.u32 %r4, 31; sub.u32 %r3, %r4, %r3; and.b32 %r5, %r0, 32;"
      "add.u32 %r3, %r3, %r5; mad.lo.u32 %r3, %r3, 4, %r80;"
      "ld.shared.u32 %r9, [%r3];",
      [](uint32_t i) {
        uint32_t last = i;
        while ((last + 3) / 32 == i / 32) last += 3;
        return last;
      });
  // The result goes to the register with the members.
  Check(
      "mov.u32 %r9, -1; setp.gt.u32 %p1, %r0, 40;"
      "vote.sync.ballot.b32 %r9, %p1, %r9;",
      [](uint32_t i) { return i < 32 ? 0 : 0xfffffe00u; });
  Check(
      "mov.u32 %r9, 0; setp.lt.u32 %p1, %r0, 7; @!%p1 bra END;\n"
      "activemask.b32 %r9;\nEND:",
      [](uint32_t i) { return i < 7 ? 127 : 0; });
}

}  // namespace
}  // namespace ptx
}  // namespace tf_hsm

int main() {
  using namespace tf_hsm::ptx;  // NOLINT
  CheckBranches();
  CheckBarriers();
  CheckShuffles();
  CheckVotes();
  return tf_hsm::Summarize();
}
