// The callbacks of events, on a thread of the shim's own.
//
// The CPU plugin calls them on the threads of its pool, of which it has as many as cores or devices. torch_tpu
// destroys buffers there. That waits until the program that a buffer was donated to has started, and a program of
// several partitions starts on the pool: with every thread of the pool in a callback, none ever starts.
//
// One thread suffices: a callback waits for programs at most, and no program waits for a callback.

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>

#include "shim.h"

namespace shim {
namespace {

// A callback of torch_tpu's with its argument, and the error of the event, which the callback then owns.
struct Callback {
  void (*function)(PJRT_Error*, void*) = nullptr;
  void* argument = nullptr;
  PJRT_Error* error = nullptr;
};

// Callbacks in the order in which their events became ready. Lives as long as the process, as its thread does.
class Callbacks {
 public:
  Callbacks() {
    std::thread([this] { run(); }).detach();
  }

  void add(const Callback& callback) {
    {
      const std::lock_guard<std::mutex> locked(lock_);
      waiting_.push(callback);
    }
    added_.notify_one();
  }

 private:
  [[noreturn]] void run() {
    pthread_setname_np(pthread_self(), "shim_callbacks");
    for (;;) {
      Callback next;
      {
        std::unique_lock<std::mutex> locked(lock_);
        added_.wait(locked, [this] { return !waiting_.empty(); });
        next = waiting_.front();
        waiting_.pop();
      }
      next.function(next.error, next.argument);
    }
  }

  std::mutex lock_;
  std::condition_variable added_;
  std::queue<Callback> waiting_;
};

// The process's own, made with its first event: a thread that is there before would not survive a fork.
Callbacks& callbacks() {
  static auto* here = new Callbacks;
  return *here;
}

// What the CPU plugin calls in place of torch_tpu's callback.
void ready(PJRT_Error* error, void* given) {
  auto* callback = static_cast<Callback*>(given);
  callback->error = error;
  callbacks().add(*callback);
  delete callback;
}

}  // namespace

PJRT_Error* on_ready(PJRT_Event_OnReady_Args* args) {
  auto* callback = new Callback{args->callback, args->user_arg, nullptr};
  PJRT_Event_OnReady_Args ours = *args;
  ours.struct_size = sizeof(ours);
  ours.callback = ready;
  ours.user_arg = callback;
  PJRT_Error* error = process().cpu->PJRT_Event_OnReady(&ours);
  if (error != nullptr) delete callback;  // it is never called
  return error;
}

}  // namespace shim
