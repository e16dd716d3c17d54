#ifndef FERMATA_TESTS_E2E_DOCUMENTED_H_
#define FERMATA_TESTS_E2E_DOCUMENTED_H_

#include <string>
#include <vector>

#include "tests/e2e/http_client.h"

namespace fermata::e2e {

// Calls to a server whose answers are to be as the OpenAPI document has them that it serves.
class DocumentedCalls {
 public:
  explicit DocumentedCalls(int port) : port_(port) {}

  // Makes a call on a connection of its own, and notes its answer.
  HttpReply Call(const HttpCall& call);
  // An answer that came otherwise.
  void Note(const HttpCall& call, const HttpReply& reply);

  // What of all answers is not as documented; empty where all is. Or else which operations of the
  // document have not succeeded once.
  std::string Problems() const { return Check(""); }
  std::string ProblemsAndGaps() const { return Check("--every-operation"); }
  size_t size() const { return answers_.size(); }

 private:
  std::string Check(const std::string& option) const;

  const int port_;
  std::vector<std::string> answers_;  // A line each, as check_answers.py reads them.
};

}  // namespace fermata::e2e

#endif  // FERMATA_TESTS_E2E_DOCUMENTED_H_
