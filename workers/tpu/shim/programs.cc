// Programs: what the shim must know of each, and how one without collectives runs.

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>

#include "shim.h"

namespace shim {
namespace {

// The opcodes of XLA's instructions that communicate. Some have forms that end in `-start`.
constexpr std::array<std::string_view, 9> kCollectives = {
    "all-gather",         "all-reduce",        "all-to-all", "collective-broadcast",
    "collective-permute", "ragged-all-to-all", "recv",       "reduce-scatter",
    "send"};
constexpr std::string_view kStart = "-start";

std::mutex lock;
std::map<const PJRT_LoadedExecutable*, Program> programs;

// 64-bit FNV-1a.
std::uint64_t digest_of(std::string_view bytes) {
  std::uint64_t digest = 0xcbf29ce484222325u;
  for (const unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001b3u;
  return digest;
}

// Whether a serialized `HloModuleProto` (xla/service/hlo.proto) has an instruction of this opcode: a string, the
// field 2 of `HloInstructionProto`, which begins with its tag and its length.
bool has(std::string_view program, std::string_view opcode) {
  const std::string field = {'\x12', static_cast<char>(opcode.size())};
  return program.find(field + std::string(opcode)) != std::string_view::npos;
}

bool communicates(std::string_view program) {
  return std::any_of(kCollectives.begin(), kCollectives.end(), [&](std::string_view opcode) {
    return has(program, opcode) || has(program, std::string(opcode) + std::string(kStart));
  });
}

// The program as XLA has compiled it, the partitioner's collectives included: a serialized `HloModuleProto`.
std::string optimized(PJRT_Executable* executable) {
  auto program = arguments<PJRT_Program>();
  auto wanted = arguments<PJRT_Executable_OptimizedProgram_Args>();
  wanted.executable = executable;
  wanted.program = &program;
  check(process().cpu->PJRT_Executable_OptimizedProgram(&wanted));  // only says how large it is
  std::string code(program.code_size, '\0');
  program.code = code.data();
  check(process().cpu->PJRT_Executable_OptimizedProgram(&wanted));
  return code;
}

std::size_t outputs_of(PJRT_Executable* executable) {
  auto outputs = arguments<PJRT_Executable_NumOutputs_Args>();
  outputs.executable = executable;
  check(process().cpu->PJRT_Executable_NumOutputs(&outputs));
  return outputs.num_outputs;
}

std::string name_of(PJRT_Executable* executable) {
  auto name = arguments<PJRT_Executable_Name_Args>();
  name.executable = executable;
  check(process().cpu->PJRT_Executable_Name(&name));
  return {name.executable_name, name.executable_name_size};
}

std::vector<int> order_of(PJRT_LoadedExecutable* loaded) {
  auto devices = arguments<PJRT_LoadedExecutable_AddressableDevices_Args>();
  devices.executable = loaded;
  check(process().cpu->PJRT_LoadedExecutable_AddressableDevices(&devices));
  std::vector<int> order;
  for (std::size_t i = 0; i < devices.num_addressable_devices; ++i) {
    order.push_back(process().rank_of(devices.addressable_devices[i]));
  }
  return order;
}

// The digest is that of the source: what XLA makes of the same program differs from process to process.
Program described(PJRT_LoadedExecutable* loaded, std::string_view source) {
  auto plain = arguments<PJRT_LoadedExecutable_GetExecutable_Args>();
  plain.loaded_executable = loaded;
  check(process().cpu->PJRT_LoadedExecutable_GetExecutable(&plain));
  const auto destroy = [](PJRT_Executable* executable) {
    auto done = arguments<PJRT_Executable_Destroy_Args>();
    done.executable = executable;
    process().cpu->PJRT_Executable_Destroy(&done);
  };
  const std::unique_ptr<PJRT_Executable, decltype(destroy)> executable(plain.executable, destroy);
  Program program;
  program.name = name_of(executable.get());
  program.digest = digest_of(source);
  program.communicates = communicates(optimized(executable.get()));
  program.order = order_of(loaded);
  program.outputs = outputs_of(executable.get());
  return program;
}

}  // namespace

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  return guarded([&] {
    check(process().cpu->PJRT_Client_Compile(args));
    Program program = described(args->executable, {args->program->code, args->program->code_size});
    const std::lock_guard<std::mutex> locked(lock);
    programs[args->executable] = std::move(program);
  });
}

PJRT_Error* destroy_program(PJRT_LoadedExecutable_Destroy_Args* args) {
  {
    const std::lock_guard<std::mutex> locked(lock);
    programs.erase(args->executable);
  }
  return process().cpu->PJRT_LoadedExecutable_Destroy(args);
}

PJRT_Error* program_addressable(PJRT_LoadedExecutable_AddressableDevices_Args* args) {
  args->addressable_devices = &process().devices.at(process().settings.rank);
  args->num_addressable_devices = 1;
  return nullptr;
}

// The CPU plugin does not answer this, and torch_tpu's compiled programs need the answer: every output is in the
// default memory of its device. What is pointed to lives as long as the process.
PJRT_Error* output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args* args) {
  return guarded([&] {
    static std::map<std::size_t, std::pair<std::vector<const char*>, std::vector<std::size_t>>> answers;
    auto memory = arguments<PJRT_Device_DefaultMemory_Args>();
    memory.device = process().own_device();
    check(process().cpu->PJRT_Device_DefaultMemory(&memory));
    auto kind = arguments<PJRT_Memory_Kind_Args>();
    kind.memory = memory.memory;
    check(process().cpu->PJRT_Memory_Kind(&kind));
    const std::size_t outputs = outputs_of(args->executable);

    const std::lock_guard<std::mutex> locked(lock);
    auto& [kinds, sizes] = answers[outputs];
    kinds.assign(outputs, kind.kind);
    sizes.assign(outputs, kind.kind_size);
    args->num_outputs = outputs;
    args->memory_kinds = kinds.data();
    args->memory_kind_sizes = sizes.data();
  });
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  return guarded([&] {
    Program program;
    {
      const std::lock_guard<std::mutex> locked(lock);
      const auto found = programs.find(args->executable);
      if (found == programs.end()) throw std::runtime_error("a program runs that this rank has not compiled");
      program = found->second;
    }
    if (program.communicates && program.order.size() > 1) {
      execute_together(program, args);
      return;
    }
    PJRT_LoadedExecutable_Execute_Args alone = *args;
    alone.struct_size = sizeof(alone);
    alone.execute_device = process().own_device();
    check(process().cpu->PJRT_LoadedExecutable_Execute(&alone));
  });
}

}  // namespace shim
