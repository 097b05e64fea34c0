// What the parser reads, and what it refuses by its line.

#include <string>
#include <vector>

#include "cc/core/testing/test_support.h"
#include "cc/cuda/ptx/findings.h"
#include "cc/cuda/ptx/module.h"

namespace tf_hsm {
namespace ptx {
namespace {

constexpr char kModule[] = R"(
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .b32 table[3] = {1, 0x10, 5};
.visible .entry _ZN6tf_hsm5FirstIfEEvPKfi(
  .param .u64 .ptr .align 1 p0,
  .param .u8 p1, // a comment; with marks {
  .param .align 8 .b8 p2[24]
)
.maxntid 128, 1, 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>; .reg .b64 %rd<2>;
  .shared .align 8 .b8 first[12];
  .shared .align 16 .b8 second[4];
  .loc 1 23 5
  @!%p1 add.s32 %r1, %r2, -3;
  /* two
     lines */
$L__1:
  .loc 2 7 3, function_name $L__info0, inlined_at 1 30 9
  ld.global.v2.u32 {%r1, _}, [%rd1+-8];
  { .reg .u64 %rd1; mov.b64 %rd1, {%r1, %r2}; }
  bra $L__1;
}
.entry second() { ret; }
.file 1 "/sandbox/cc/cuda/a.cu"
.file 2 "/usr/include/b.h"
.section .debug_str { $L__info0: .b8 95,90,0 }
)";

void CheckModule() {
  const Module module = Parse(kModule);
  Expect(module.entries.size() == 2 && module.dynamic_shared == "dynamic",
         "two kernels");
  Expect(module.globals.size() == 1 && module.globals[0].bytes.size() == 12 &&
             module.globals[0].bytes[4] == 0x10,
         "a table");
  const Entry& entry = module.entries.at("_ZN6tf_hsm5FirstIfEEvPKfi");
  Expect(entry.max_threads == 128, "threads");
  const std::vector<int64_t> offsets = {0, 8, 16};
  for (size_t i = 0; i < offsets.size(); ++i) {
    Expect(entry.parameters.variables[i].offset == offsets[i], "parameters");
  }
  Expect(entry.parameters.end == 40, "the end of the parameters");
  Expect(entry.shared.variables[1].offset == 16 && entry.shared.end == 20,
         "shared memory");
  Expect(entry.statements.size() == 4 && entry.labels.at("$L__1") == 1,
         "statements");

  const Statement& add = entry.statements[0];
  Expect(add.opcode == "add.s32" && add.guard >= 0 && add.guard_negated &&
             add.operands[2].bits == ~uint64_t{2} && add.line == 19,
         "a guarded statement");
  const Statement& load = entry.statements[1];
  Expect(load.operands[0].parts.size() == 2 &&
             load.operands[0].parts[1].kind == Operand::Kind::kSink &&
             load.operands[1].displacement == -8,
         "a vector and an address");
  // A register of an inner block is another one.
  Expect(entry.statements[2].operands[0].index != load.operands[1].index,
         "a register declared again");
  Expect(
      Where(module, entry, 0) ==
          "\"@!%p1 add.s32 %r1, %r2, -3\" (line 19, cc/cuda/a.cu:23) of void "
          "tf_hsm::First<float>",
      Where(module, entry, 0));
  Expect(Where(module, entry, 1) ==
             "\"ld.global.v2.u32 {%r1, _}, [%rd1+-8]\" (line 24, b.h:7 "
             "from cc/cuda/a.cu:30) of void tf_hsm::First<float>",
         Where(module, entry, 1));
}

void CheckRefused(const std::string& text, const std::string& why) {
  std::string got = "nothing";
  try {
    Parse(text);
  } catch (const Unsupported& unsupported) {
    got = unsupported.what();
  }
  Expect(got.find(why) != std::string::npos, why + ", but " + got);
}

void CheckRefusals() {
  CheckRefused("\n.func f() { ret; }", "line 2: cannot read .func");
  CheckRefused(".entry k()\n{\n.local .b8 depot[8];\n}", "k has .local");
  CheckRefused("\n.shared .align 4 .b8 a[8];", "line 2: a shared array");
  CheckRefused(".entry k()\n{\nret;\n", "k does not end");
  CheckRefused(".entry k()\n{\n@%p1 ret;\n}", "no register %p1");
  CheckRefused(".entry k()\n{\nadd 1, 0xzz;\n}", "number 0xzz");
}

}  // namespace
}  // namespace ptx
}  // namespace tf_hsm

int main() {
  tf_hsm::ptx::CheckModule();
  tf_hsm::ptx::CheckRefusals();
  return tf_hsm::Summarize();
}
