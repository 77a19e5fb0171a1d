// A PJRT plugin that makes OpenXLA's CPU plugin look like a TPU slice with one device in each process.
//
// torch_tpu runs one process per device and gives XLA programs over all devices. The CPU plugin has all its
// devices in one process. So every rank has a client with as many CPU devices as there are ranks, and calls only
// its own addressable. A program without collectives runs on that device alone. For one with collectives the
// ranks give one another their inputs through files; each runs all partitions, with XLA:CPU's own collectives,
// and keeps the outputs of its own partition.
//
// Everything here is in the process of one rank. `plugin.cc` has the table of functions, the other files what
// differs from the CPU plugin's.

#ifndef WORKERS_TPU_SHIM_SHIM_H_
#define WORKERS_TPU_SHIM_SHIM_H_

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "pjrt_c_api.h"

namespace shim {

// What `shim_configure` was given. `folder` is where the ranks exchange their inputs, `seconds` how long a rank
// waits there for another one.
struct Settings {
  std::string folder;
  int ranks = 1;
  int rank = 0;
  double seconds = 600;
};

// The state of this process, set once: by `GetPjrtApi`, `shim_configure` and `PJRT_Client_Create` in turn.
// `devices` has the CPU device of every rank, in the order of the ranks.
struct Process {
  Settings settings;
  const PJRT_Api* cpu = nullptr;
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Device*> devices;

  PJRT_Device* own_device() const { return devices.at(settings.rank); }
  int rank_of(const PJRT_Device* device) const;
};

Process& process();

// Arguments of a PJRT function, with every field zero but the size.
template <typename Arguments>
Arguments arguments() {
  Arguments made{};
  made.struct_size = sizeof(Arguments);
  return made;
}

// ---- errors.cc ------------------------------------------------------------------------------------------------

// A PJRT error on its way to the caller of the shim, which then owns it.
struct Failed {
  PJRT_Error* error;
};

// An error of the shim's own. The CPU plugin knows nothing of these, so the shim answers for them.
PJRT_Error* own_error(PJRT_Error_Code code, const std::string& message);

// Throws `Failed` unless `error` is null.
inline void check(PJRT_Error* error) {
  if (error != nullptr) throw Failed{error};
}

// The error that `body` throws, or null.
template <typename Body>
PJRT_Error* guarded(Body body) {
  try {
    body();
    return nullptr;
  } catch (const Failed& failed) {
    return failed.error;
  } catch (const std::exception& error) {
    return own_error(PJRT_Error_Code_INTERNAL, error.what());
  }
}

void destroy_error(PJRT_Error_Destroy_Args* args);
void error_message(PJRT_Error_Message_Args* args);
PJRT_Error* error_code(PJRT_Error_GetCode_Args* args);

// ---- devices.cc -----------------------------------------------------------------------------------------------

PJRT_Error* create_client(PJRT_Client_Create_Args* args);
PJRT_Error* client_process(PJRT_Client_ProcessIndex_Args* args);
PJRT_Error* client_addressable(PJRT_Client_AddressableDevices_Args* args);
PJRT_Error* device_process(PJRT_DeviceDescription_ProcessIndex_Args* args);
PJRT_Error* device_addressable(PJRT_Device_IsAddressable_Args* args);

// ---- callbacks.cc ---------------------------------------------------------------------------------------------

PJRT_Error* on_ready(PJRT_Event_OnReady_Args* args);

// ---- programs.cc ----------------------------------------------------------------------------------------------

// What the shim must know of a compiled program. `order` has the rank of every partition, as the device
// assignment of the program says. `digest` is equal on all ranks that compiled the same program.
struct Program {
  std::string name;
  std::uint64_t digest = 0;
  bool communicates = false;
  std::vector<int> order;
  std::size_t outputs = 0;
};

PJRT_Error* compile(PJRT_Client_Compile_Args* args);
PJRT_Error* destroy_program(PJRT_LoadedExecutable_Destroy_Args* args);
PJRT_Error* program_addressable(PJRT_LoadedExecutable_AddressableDevices_Args* args);
PJRT_Error* output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args* args);
PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args);

// ---- exchange.cc ----------------------------------------------------------------------------------------------

// A tensor on the host, its values in row-major order.
struct Tensor {
  PJRT_Buffer_Type type;
  std::vector<std::int64_t> shape;
  std::string values;
};

// Gives `own` to the other ranks of a program, and returns the tensors of all of them, in the order of its
// partitions; those of this rank are left empty. Throws `Failed` where another rank runs another program, or
// does not come within the time limit.
std::vector<std::vector<Tensor>> exchange_inputs(const Program& program, const std::vector<Tensor>& own);

// How many programs have exchanged their inputs in this process.
std::int64_t exchanged();

// ---- collectives.cc -------------------------------------------------------------------------------------------

// Runs all partitions of a program that communicates.
void execute_together(const Program& program, PJRT_LoadedExecutable_Execute_Args* args);

}  // namespace shim

#endif  // WORKERS_TPU_SHIM_SHIM_H_
