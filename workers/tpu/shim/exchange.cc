// How the ranks give one another the inputs of a program: a file per rank and execution.
//
// A rank writes its file under another name and renames it, so that nobody reads half of it. When it writes the
// file of execution n, every rank of the same program has read what it wrote for n - 2, which it removes. What is
// left goes with the folder.

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "shim.h"

namespace shim {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr double kShortestPause = 0.05, kLongestPause = 2;  // milliseconds between two looks
constexpr double kNoticeSeconds = 10;                       // after which a rank that waits writes so to its log

std::mutex lock;
std::map<std::string, std::int64_t> executions;  // by group of ranks
std::atomic<std::int64_t> exchanges{0};

// One execution of a program by a group of ranks.
struct Execution {
  const Program& program;
  std::string group;
  std::int64_t number;

  std::string file(int rank, std::int64_t of) const {
    return process().settings.folder + "/" + group + "-" + std::to_string(of) + "-" + std::to_string(rank);
  }
  std::string named() const {
    return "program " + program.name + ", execution " + std::to_string(number) + " of the ranks " + group;
  }
};

// The ranks of a program, ascending: "0.1". Programs with the same ranks in another order are one group, because
// a rank runs them one after another.
std::string group_of(const Program& program) {
  std::vector<int> ranks = program.order;
  std::sort(ranks.begin(), ranks.end());
  std::string group;
  for (const int rank : ranks) group += (group.empty() ? "" : ".") + std::to_string(rank);
  return group;
}

template <typename Number>
void put(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Reads what `put` wrote, one after another.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  template <typename Number>
  Number number() {
    Number read;
    std::memcpy(&read, text(sizeof read).data(), sizeof read);
    return read;
  }

  std::string text(std::size_t size) {
    if (size > bytes_.size() - at_) throw std::runtime_error("a file of another rank is too short");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

std::string packed(const Program& program, const std::vector<Tensor>& tensors) {
  std::string bytes;
  put(bytes, program.digest);
  put(bytes, program.name.size());
  bytes += program.name;
  put(bytes, tensors.size());
  for (const Tensor& tensor : tensors) {
    put(bytes, tensor.type);
    put(bytes, tensor.shape.size());
    for (const std::int64_t size : tensor.shape) put(bytes, size);
    put(bytes, tensor.values.size());
    bytes += tensor.values;
  }
  return bytes;
}

// The tensors of another rank's file. Throws `Failed` where it ran another program.
std::vector<Tensor> unpacked(const std::string& bytes, const Execution& execution, int rank) {
  Reader reader(bytes);
  const auto digest = reader.number<std::uint64_t>();
  const std::string name = reader.text(reader.number<std::size_t>());
  if (digest != execution.program.digest) {
    throw Failed{own_error(PJRT_Error_Code_FAILED_PRECONDITION,
                           "ranks run different programs: rank " + std::to_string(rank) + " runs program " + name +
                               ", rank " + std::to_string(process().settings.rank) + " runs " + execution.named())};
  }
  std::vector<Tensor> tensors(reader.number<std::size_t>());
  for (Tensor& tensor : tensors) {
    tensor.type = reader.number<PJRT_Buffer_Type>();
    tensor.shape.resize(reader.number<std::size_t>());
    for (std::int64_t& size : tensor.shape) size = reader.number<std::int64_t>();
    tensor.values = reader.text(reader.number<std::size_t>());
  }
  return tensors;
}

void write(const std::string& file, const std::string& bytes) {
  const std::string unfinished = file + ".part";
  std::ofstream out(unfinished, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out || rename(unfinished.c_str(), file.c_str()) != 0) throw std::runtime_error("cannot write " + file);
}

// Waits for a rank's file and reads it. Throws `Failed` after the time limit.
std::string awaited(const Execution& execution, int rank) {
  const std::string file = execution.file(rank, execution.number);
  const auto begin = Clock::now();
  struct stat found;
  bool noticed = false;
  double pause = kShortestPause;
  for (; stat(file.c_str(), &found) != 0; pause = std::min(2 * pause, kLongestPause)) {
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    std::ostringstream text;
    text << "rank " << process().settings.rank << " waited " << waited << " s for rank " << rank << " in "
         << execution.named();
    if (waited > process().settings.seconds) {
      throw Failed{own_error(PJRT_Error_Code_DEADLINE_EXCEEDED, text.str())};
    }
    if (waited > kNoticeSeconds && !noticed) {
      noticed = true;
      fprintf(stderr, "TorchTPU on XLA:CPU: %s\n", text.str().c_str());
    }
    std::this_thread::sleep_for(Milliseconds(pause));
  }
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<std::vector<Tensor>> exchange_inputs(const Program& program, const std::vector<Tensor>& own) {
  const int rank = process().settings.rank;
  Execution execution{program, group_of(program), 0};
  {
    const std::lock_guard<std::mutex> locked(lock);
    execution.number = executions[execution.group]++;
  }
  write(execution.file(rank, execution.number), packed(program, own));
  unlink(execution.file(rank, execution.number - 2).c_str());
  std::vector<std::vector<Tensor>> all(program.order.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int other = program.order[i];
    if (other != rank) all[i] = unpacked(awaited(execution, other), execution, other);
  }
  ++exchanges;
  return all;
}

std::int64_t exchanged() { return exchanges; }

}  // namespace shim
