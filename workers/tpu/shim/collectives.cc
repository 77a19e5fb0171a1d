// Programs with collectives: every rank runs all partitions, on the inputs of all ranks, and keeps its outputs.

#include <algorithm>
#include <stdexcept>

#include "shim.h"

namespace shim {
namespace {

void destroy(PJRT_Buffer* buffer) {
  auto done = arguments<PJRT_Buffer_Destroy_Args>();
  done.buffer = buffer;
  process().cpu->PJRT_Buffer_Destroy(&done);
}

// Waits for an event, which is gone afterwards. Throws `Failed` where what it stands for failed.
void wait(PJRT_Event* event) {
  auto waited = arguments<PJRT_Event_Await_Args>();
  waited.event = event;
  PJRT_Error* error = process().cpu->PJRT_Event_Await(&waited);
  auto done = arguments<PJRT_Event_Destroy_Args>();
  done.event = event;
  process().cpu->PJRT_Event_Destroy(&done);
  check(error);
}

// Buffers that are destroyed with this.
struct Owned {
  std::vector<PJRT_Buffer*> buffers;

  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    for (PJRT_Buffer* buffer : buffers) destroy(buffer);
  }
};

Tensor read(PJRT_Buffer* buffer) {
  const PJRT_Api* cpu = process().cpu;
  auto type = arguments<PJRT_Buffer_ElementType_Args>();
  type.buffer = buffer;
  check(cpu->PJRT_Buffer_ElementType(&type));
  auto shape = arguments<PJRT_Buffer_Dimensions_Args>();
  shape.buffer = buffer;
  check(cpu->PJRT_Buffer_Dimensions(&shape));
  Tensor tensor{type.type, {shape.dims, shape.dims + shape.num_dims}, ""};

  std::vector<std::int64_t> row_major(tensor.shape.size());
  for (std::size_t i = 0; i < row_major.size(); ++i) row_major[i] = row_major.size() - 1 - i;
  auto layout = arguments<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = arguments<PJRT_Buffer_MemoryLayout_Tiled>();
  layout.tiled.minor_to_major = row_major.data();
  layout.tiled.minor_to_major_size = row_major.size();
  auto copy = arguments<PJRT_Buffer_ToHostBuffer_Args>();
  copy.src = buffer;
  copy.host_layout = &layout;
  check(cpu->PJRT_Buffer_ToHostBuffer(&copy));  // only says how large it is
  tensor.values.resize(copy.dst_size);
  copy.dst = tensor.values.data();
  check(cpu->PJRT_Buffer_ToHostBuffer(&copy));
  wait(copy.event);
  return tensor;
}

PJRT_Buffer* placed(const Tensor& tensor, int rank) {
  auto made = arguments<PJRT_Client_BufferFromHostBuffer_Args>();
  made.client = process().client;
  made.data = tensor.values.data();
  made.type = tensor.type;
  made.dims = tensor.shape.data();
  made.num_dims = tensor.shape.size();
  made.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  made.device = process().devices.at(rank);
  check(process().cpu->PJRT_Client_BufferFromHostBuffer(&made));
  wait(made.done_with_host_buffer);
  return made.buffer;
}

// Which partition of a program is this rank's.
std::size_t own_partition(const Program& program) {
  const auto found = std::find(program.order.begin(), program.order.end(), process().settings.rank);
  if (found == program.order.end()) {
    throw std::runtime_error("program " + program.name + " does not run on rank " +
                             std::to_string(process().settings.rank));
  }
  return found - program.order.begin();
}

// The arguments of every partition: this rank's as they are, the others' from what they sent, which `borrowed`
// then owns.
std::vector<std::vector<PJRT_Buffer*>> inputs_of_all(const Program& program, PJRT_Buffer* const* own,
                                                     std::size_t count, Owned& borrowed) {
  std::vector<Tensor> sent;
  for (std::size_t i = 0; i < count; ++i) sent.push_back(read(own[i]));
  const std::vector<std::vector<Tensor>> received = exchange_inputs(program, sent);
  std::vector<std::vector<PJRT_Buffer*>> inputs(program.order.size());
  for (std::size_t partition = 0; partition < inputs.size(); ++partition) {
    if (program.order[partition] == process().settings.rank) {
      inputs[partition].assign(own, own + count);
      continue;
    }
    for (const Tensor& tensor : received[partition]) {
      borrowed.buffers.push_back(placed(tensor, program.order[partition]));
      inputs[partition].push_back(borrowed.buffers.back());
    }
  }
  return inputs;
}

template <typename Element>
std::vector<Element*> rows(std::vector<std::vector<Element>>& table) {
  std::vector<Element*> pointers;
  for (auto& row : table) pointers.push_back(row.data());
  return pointers;
}

}  // namespace

void execute_together(const Program& program, PJRT_LoadedExecutable_Execute_Args* args) {
  const std::size_t own = own_partition(program), partitions = program.order.size();
  Owned borrowed, unwanted;
  auto inputs = inputs_of_all(program, args->argument_lists[0], args->num_args, borrowed);
  std::vector<std::vector<PJRT_Buffer*>> outputs(partitions, std::vector<PJRT_Buffer*>(program.outputs));
  const std::vector<PJRT_Buffer**> input_rows = rows(inputs), output_rows = rows(outputs);
  std::vector<PJRT_Event*> complete(partitions);

  PJRT_LoadedExecutable_Execute_Args all = *args;
  all.struct_size = sizeof(all);
  all.argument_lists = input_rows.data();
  all.num_devices = partitions;
  all.output_lists = output_rows.data();
  all.device_complete_events = complete.data();
  all.execute_device = nullptr;
  check(process().cpu->PJRT_LoadedExecutable_Execute(&all));

  for (std::size_t partition = 0; partition < partitions; ++partition) {
    const std::vector<PJRT_Buffer*>& made = outputs[partition];
    if (partition != own) unwanted.buffers.insert(unwanted.buffers.end(), made.begin(), made.end());
  }
  std::copy(outputs[own].begin(), outputs[own].end(), args->output_lists[0]);
  for (std::size_t partition = 0; partition < partitions; ++partition) {
    if (partition == own && args->device_complete_events != nullptr) {
      args->device_complete_events[0] = complete[partition];
    } else {
      wait(complete[partition]);  // before the buffers of the other ranks go
    }
  }
}

}  // namespace shim
