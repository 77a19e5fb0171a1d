// The plugin: the table of functions of the plugin behind the shim, with those of the shim in the place of some.
//
// `SHIM_PLUGIN` is the file of the plugin behind it, with quotation marks: the compiler's command defines it.

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "shim.h"

namespace shim {
namespace {

// As large as the plugin's own: a newer one has functions that the shim's header does not name.
std::vector<std::max_align_t> memory;

PJRT_Api& copied(const PJRT_Api* plugin) {
  memory.resize(std::max(sizeof(PJRT_Api), plugin->struct_size) / sizeof(std::max_align_t) + 1);
  std::memcpy(memory.data(), plugin, plugin->struct_size);
  return *reinterpret_cast<PJRT_Api*>(memory.data());
}

// Puts the shim's functions into the table.
void replace_functions(PJRT_Api& table) {
  table.PJRT_Error_Destroy = destroy_error;
  table.PJRT_Error_Message = error_message;
  table.PJRT_Error_GetCode = error_code;
  table.PJRT_Event_OnReady = on_ready;
  table.PJRT_Client_Create = create_client;
  table.PJRT_Client_ProcessIndex = client_process;
  table.PJRT_Client_AddressableDevices = client_addressable;
  table.PJRT_DeviceDescription_ProcessIndex = device_process;
  table.PJRT_Device_IsAddressable = device_addressable;
  table.PJRT_Client_Compile = compile;
  table.PJRT_LoadedExecutable_Destroy = destroy_program;
  table.PJRT_LoadedExecutable_AddressableDevices = program_addressable;
  table.PJRT_Executable_OutputMemoryKinds = output_memory_kinds;
  table.PJRT_LoadedExecutable_Execute = execute;
}

}  // namespace

Process& process() {
  static Process here;
  return here;
}

}  // namespace shim

#define EXPORTED __attribute__((visibility("default")))

extern "C" {

// What the shim must know before a client is made: called by this library's user in the process of each rank.
EXPORTED void shim_configure(const char* folder, int ranks, int rank, double seconds) {
  shim::process().settings = {folder, ranks, rank, seconds};
}

// How many programs have exchanged inputs between the ranks.
EXPORTED std::int64_t shim_exchanged() { return shim::exchanged(); }

// The name that every PJRT plugin exports; torch_tpu calls it as it is imported. Null where the plugin behind
// the shim cannot be loaded; standard error says why.
EXPORTED const PJRT_Api* GetPjrtApi() {
  shim::Process& here = shim::process();
  static PJRT_Api* table = nullptr;
  if (table != nullptr) return table;
  void* library = dlopen(SHIM_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, "GetPjrtApi");
  if (symbol == nullptr) {
    std::fprintf(stderr, "TorchTPU on XLA: %s\n", dlerror());
    return nullptr;
  }
  here.cpu = reinterpret_cast<const PJRT_Api* (*)()>(symbol)();
  table = &shim::copied(here.cpu);
  shim::replace_functions(*table);
  return table;
}

}  // extern "C"
