#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/app/notices.h"
#include "engine/base/clock.h"
#include "engine/serve/web_rules.h"
#include "engine/store/rows.h"
#include "engine/store/store.h"

namespace dtrain {

class WebServer;

/// The page of `dtrain serve`: answers its requests from one read-only
/// connection to the store, and sends events of what has changed. One thread.
/// Opens the store again if it was created or replaced meanwhile.
class LivePage {
 public:
  /// `globals` name the store for commands that --control starts.
  LivePage(StoreLayout layout, WebRules rules, GlobalOptions globals);
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;

  /// Answers a request: a WebServer::Handler. REQUIRES: `server` is the caller.
  std::optional<WebReply> Answer(WebServer& server, std::uint64_t exchange,
                                 const WebRequest& request);
  /// Sends events to the streams of `server` if the store has changed.
  void Poll(WebServer& server);

 private:
  using Place = std::pair<std::uint64_t, std::uint64_t>;  // device, inode

  struct Cached {
    WebReply reply;
    Duration built{0};
    bool may_be_old = false;  // its reader asks for later changes
  };

  WebReply AnswerData(const WebRequest& request);
  WebReply ReadData(const WebRequest& request);
  WebReply Experiment(std::int64_t id);
  WebReply Metrics(std::int64_t id, const std::string& query);
  WebReply Changes(std::int64_t id, const std::string& query);
  std::optional<WebReply> StartCommand(WebServer& server,
                                       std::uint64_t exchange,
                                       const std::string& body);
  nlohmann::json ListJson();
  // Returns an event of all experiments. Unless it goes `to_all` open pages,
  // the others have yet to receive what has changed since the last event.
  std::string FirstEvent(bool to_all);
  std::string NextEvent(bool data_changed);
  void ReopenIfReplaced();
  void UpdateVersion();

  const StoreLayout layout_;
  const WebRules rules_;
  const GlobalOptions globals_;
  Store store_;
  Place place_;          // of the store; zeros until it can be opened whole
  std::string problem_;  // why the page may not show the store; else empty
  std::int64_t version_ = -1;                 // of the data in `cache_`
  Timestamp version_time_{0};                 // before it was first seen
  std::map<std::string, Cached> cache_;       // by path and query
  std::map<std::int64_t, std::string> sent_;  // rows of experiments, as JSON
  Duration next_poll_{0};
  Duration next_list_{0};
  Duration next_place_{0};
  Duration next_sign_{0};
  int commands_ = 0;  // that are running
};

}  // namespace dtrain
