#ifndef FERMATA_SERVER_SIGNALS_H_
#define FERMATA_SERVER_SIGNALS_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace fermata {

// Takes SIGTERM and SIGINT on a thread of its own, so that nothing runs inside a signal handler.
// Make one, in main, before any other thread is started: threads inherit that they do not take
// these signals themselves. Lives as long as the process.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Until it is called, a signal ends the process at once, with exit code 0: there is nothing to
  // lose yet. From then on the first one is what WaitForStop waits for, and a second one ends the
  // process at once, with code 128 + its number.
  void HoldForStop();
  // Returns the signal's name.
  const char* WaitForStop();

 private:
  [[noreturn]] void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool holding_ = false;
  int stop_ = 0;
};

}  // namespace fermata

#endif  // FERMATA_SERVER_SIGNALS_H_
