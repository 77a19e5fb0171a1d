// The client and its devices: as many as there are ranks, of which this process has one.

#include <algorithm>
#include <stdexcept>

#include "shim.h"

namespace shim {

int Process::rank_of(const PJRT_Device* device) const {
  const auto found = std::find(devices.begin(), devices.end(), device);
  if (found == devices.end()) throw std::runtime_error("a program runs on a device that the client does not have");
  return static_cast<int>(found - devices.begin());
}

PJRT_Error* create_client(PJRT_Client_Create_Args* args) {
  return guarded([&] {
    Process& here = process();
    // torch_tpu's options are for a TPU, and other plugins refuse them.
    auto option = arguments<PJRT_NamedValue>();
    const std::string name = SHIM_ON_CARDS ? "preallocate" : "cpu_device_count";
    option.name = name.data();
    option.name_size = name.size();
    option.value_size = 1;
    if (SHIM_ON_CARDS) {  // memory as it is needed, in place of 75 % of the card's at once
      option.type = PJRT_NamedValue_kBool;
      option.bool_value = false;
    } else {
      option.type = PJRT_NamedValue_kInt64;
      option.int64_value = here.settings.ranks;
    }

    PJRT_Client_Create_Args created = *args;
    created.struct_size = sizeof(created);
    created.create_options = &option;
    created.num_options = 1;
    check(here.cpu->PJRT_Client_Create(&created));
    args->client = here.client = created.client;

    auto all = arguments<PJRT_Client_Devices_Args>();
    all.client = here.client;
    check(here.cpu->PJRT_Client_Devices(&all));
    here.devices.assign(all.devices, all.devices + all.num_devices);
    const auto ranks = static_cast<std::size_t>(here.settings.ranks);
    if (here.devices.size() < ranks) {
      throw std::runtime_error("XLA has " + std::to_string(here.devices.size()) + " devices for " +
                               std::to_string(ranks) + " ranks; each rank needs one of its own");
    }
    here.devices.resize(ranks);
  });
}

PJRT_Error* client_process(PJRT_Client_ProcessIndex_Args* args) {
  args->process_index = process().settings.rank;
  return nullptr;
}

PJRT_Error* client_addressable(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = &process().devices.at(process().settings.rank);
  args->num_addressable_devices = 1;
  return nullptr;
}

// The ids of CPU devices count from 0, as the ranks do.
PJRT_Error* device_process(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  auto id = arguments<PJRT_DeviceDescription_Id_Args>();
  id.device_description = args->device_description;
  PJRT_Error* error = process().cpu->PJRT_DeviceDescription_Id(&id);
  args->process_index = id.id;
  return error;
}

PJRT_Error* device_addressable(PJRT_Device_IsAddressable_Args* args) {
  args->is_addressable = args->device == process().own_device();
  return nullptr;
}

}  // namespace shim
