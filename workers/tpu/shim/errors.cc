// Errors of the shim's own, beside those of the CPU plugin.

#include <mutex>
#include <set>

#include "shim.h"

namespace shim {
namespace {

struct OwnError {
  PJRT_Error_Code code;
  std::string message;
};

std::mutex lock;
std::set<const void*> own_errors;

// The shim's error behind a pointer; null for one of the CPU plugin's.
const OwnError* own(const PJRT_Error* error) {
  const std::lock_guard<std::mutex> locked(lock);
  return own_errors.count(error) ? reinterpret_cast<const OwnError*>(error) : nullptr;
}

}  // namespace

PJRT_Error* own_error(PJRT_Error_Code code, const std::string& message) {
  auto* made = new OwnError{code, message};
  const std::lock_guard<std::mutex> locked(lock);
  own_errors.insert(made);
  return reinterpret_cast<PJRT_Error*>(made);
}

void destroy_error(PJRT_Error_Destroy_Args* args) {
  const OwnError* error = own(args->error);
  if (error == nullptr) {
    process().cpu->PJRT_Error_Destroy(args);
    return;
  }
  {
    const std::lock_guard<std::mutex> locked(lock);
    own_errors.erase(error);
  }
  delete error;
}

void error_message(PJRT_Error_Message_Args* args) {
  const OwnError* error = own(args->error);
  if (error == nullptr) {
    process().cpu->PJRT_Error_Message(args);
    return;
  }
  args->message = error->message.data();
  args->message_size = error->message.size();
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  const OwnError* error = own(args->error);
  if (error == nullptr) return process().cpu->PJRT_Error_GetCode(args);
  args->code = error->code;
  return nullptr;
}

}  // namespace shim
