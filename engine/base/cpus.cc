#include "engine/base/cpus.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include <sched.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace fermata {
namespace {

constexpr size_t kFewestCpusAsked = 1024;
constexpr size_t kMostCpusAsked = size_t{1} << 20;

std::vector<int>& ComputeCpus() {
  static auto& cpus = *new std::vector<int>;
  return cpus;
}

// A set of CPUs of any size, as the system wants it.
class CpuSet {
 public:
  explicit CpuSet(size_t cpus) : words_((cpus + kWordBits - 1) / kWordBits) {}

  void Add(int cpu) { CPU_SET_S(cpu, bytes(), set()); }
  bool Has(size_t cpu) const { return CPU_ISSET_S(cpu, bytes(), set()); }
  size_t bytes() const { return words_.size() * sizeof(words_[0]); }
  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(words_.data()); }
  const cpu_set_t* set() const { return reinterpret_cast<const cpu_set_t*>(words_.data()); }

 private:
  static constexpr size_t kWordBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> words_;
};

bool RunOn(const std::vector<int>& cpus) {
  CpuSet set(static_cast<size_t>(cpus.back()) + 1);
  for (const int cpu : cpus) set.Add(cpu);
  return sched_setaffinity(0, set.bytes(), set.set()) == 0;
}

// "max 100000" or "150000 100000", in microseconds: time in each period, and the period.
std::optional<double> ReadCpuMax(const std::string& path) {
  std::ifstream file(path);
  std::string time;
  double period = 0;
  double microseconds = 0;
  if (!(file >> time >> period) || !absl::SimpleAtod(time, &microseconds)) return std::nullopt;
  if (microseconds <= 0 || period <= 0) return std::nullopt;
  return microseconds / period;
}

absl::Status BadList(const std::string& why) { return absl::InvalidArgumentError(why); }

// A number or a range of them, added to `cpus`.
absl::Status AddRange(absl::string_view text, const std::vector<int>& allowed,
                      std::set<int>& cpus) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  const bool is_range = absl::StrContains(text, '-');
  int first = 0;
  int last = 0;
  if (!absl::SimpleAtoi(ends.first, &first) ||
      !absl::SimpleAtoi(is_range ? ends.second : ends.first, &last) || first < 0 || last < first) {
    return BadList(absl::StrCat("'", text, "' is neither a CPU nor a range of them as in 0-3,8"));
  }
  for (int64_t cpu = first; cpu <= last; ++cpu) {
    if (!std::ranges::binary_search(allowed, cpu)) {
      return BadList(absl::StrCat("CPU ", cpu, " is none of those that this process may use (",
                                  absl::StrJoin(allowed, ","), ")"));
    }
    cpus.insert(static_cast<int>(cpu));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  // The system refuses a set that could not hold all the CPUs there may be.
  for (size_t asked = kFewestCpusAsked; asked <= kMostCpusAsked && cpus.empty(); asked *= 2) {
    CpuSet set(asked);
    if (sched_getaffinity(0, set.bytes(), set.set()) != 0) continue;
    for (size_t cpu = 0; cpu < asked; ++cpu) {
      if (set.Has(cpu)) cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

std::optional<double> CpuQuota(const std::string& membership, const std::string& root) {
  std::ifstream file(membership);
  std::string group;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) group = line.substr(3);
  }
  std::optional<double> least;
  for (group = absl::StrCat("/", absl::string_view(group).substr(group.starts_with('/') ? 1 : 0));;
       group.resize(group.rfind('/'))) {
    const auto quota = ReadCpuMax(absl::StrCat(root, group, "/cpu.max"));
    if (quota.has_value()) least = std::min(*quota, least.value_or(*quota));
    if (group.empty()) return least;
  }
}

int UsableThreads(size_t cpus, std::optional<double> quota) {
  double threads = static_cast<double>(cpus);
  if (quota.has_value()) threads = std::min(threads, std::floor(*quota));
  return static_cast<int>(std::max(threads, 1.0));
}

absl::StatusOr<std::vector<int>> ParseCpuList(std::string_view text,
                                              const std::vector<int>& allowed) {
  std::set<int> cpus;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    const absl::Status status = AddRange(part, allowed, cpus);
    if (!status.ok()) return status;
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

void SetComputeCpus(std::vector<int> cpus) { ComputeCpus() = std::move(cpus); }

ComputeCpusScope::ComputeCpusScope() {
  if (ComputeCpus().empty()) return;
  std::vector<int> before = AllowedCpus();
  if (RunOn(ComputeCpus())) before_ = std::move(before);
}

ComputeCpusScope::~ComputeCpusScope() {
  if (!before_.empty()) RunOn(before_);
}

}  // namespace fermata
