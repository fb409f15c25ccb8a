#include "engine/store/rows.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace dtrain {
namespace {

// In the order of the enumeration, by which StateName indexes.
constexpr std::array<std::pair<State, std::string_view>, 9> kStates = {{
    {State::kPending, "PENDING"},
    {State::kRunning, "RUNNING"},
    {State::kPaused, "PAUSED"},
    {State::kInterrupted, "INTERRUPTED"},
    {State::kCompleted, "COMPLETED"},
    {State::kCanceled, "CANCELED"},
    {State::kError, "ERROR"},
    {State::kStopped, "STOPPED"},
    {State::kInvalid, "INVALID"},
}};

}  // namespace

std::string_view StateName(State state) {
  return kStates[static_cast<std::size_t>(state)].second;
}

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (const auto& [state, name] : kStates) names.emplace_back(name);
  return names;
}

State StateFromName(std::string_view name) {
  for (const auto& [state, known] : kStates) {
    if (name == known) return state;
  }
  throw Error(ErrorKind::kUsage, "unknown state '" + EscapeForTerminal(name) +
                                     "'; choose one of " +
                                     Join(StateNames(), ", "));
}

bool IsFinal(State state) {
  switch (state) {
    case State::kCompleted:
    case State::kCanceled:
    case State::kError:
    case State::kStopped:
    case State::kInvalid:
      return true;
    case State::kPending:
    case State::kRunning:
    case State::kPaused:
    case State::kInterrupted:
      return false;
  }
  return false;
}

std::string_view RequestName(RequestKind kind) {
  switch (kind) {
    case RequestKind::kPause:
      return "pause";
    case RequestKind::kCancel:
      return "cancel";
    case RequestKind::kKill:
      return "kill";
  }
  return "";
}

}  // namespace dtrain
