// Serves the live page on the loopback interface or a socket file: from other
// machines it is reached through SSH. The token is in the fragment of the
// address, after "#", which a browser sends to no server, so that it is in no
// log. The loop of the web server calls LivePage for each request, and several
// times a second to find changes in the store, all in one thread.

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "engine/app/live_page.h"
#include "engine/app/stores.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/os/signals.h"
#include "engine/os/socket.h"
#include "engine/os/spawn.h"
#include "engine/page/report_page.h"
#include "engine/serve/web_server.h"

namespace dtrain {
namespace {

constexpr int kMaxPort = 65535;

struct ServeOptions {
  std::string port = "7878";
  std::string socket;
  bool control = false;
  bool open = false;
};

// The port of "7878", "127.0.0.1:7878" or "localhost:7878". Throws
// Error(kUsage) for anything else.
int PortOfOption(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::string digits = colon == text.npos ? text : text.substr(colon + 1);
  const auto port = ParseFinite(digits);
  const bool is_port = port &&
                       digits.find_first_not_of("0123456789") == digits.npos &&
                       *port <= kMaxPort;
  if (!is_port) {
    throw Error(ErrorKind::kUsage, "--port: '" + text +
                                       "' is not a port; give a number from 0 "
                                       "(any free one) to 65535");
  }
  const std::string host = colon == text.npos ? "" : text.substr(0, colon);
  if (!host.empty() && host != "127.0.0.1" && host != "localhost") {
    throw Error(
        ErrorKind::kUsage,
        "--port: " + text +
            ": only programs of this machine may connect; to see the page from "
            "another one, run there: ssh -L " +
            digits + ":127.0.0.1:" + digits +
            " THIS-MACHINE, and open the address that dtrain serve "
            "prints here");
  }
  return static_cast<int>(*port);
}

// A socket file that is removed at the end.
class SocketFile {
 public:
  explicit SocketFile(std::string path) : path_(std::move(path)) {}
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
};

void OpenBrowser(const std::string& address, const GlobalOptions& globals) {
  const pid_t pid = Spawn()
                        .ResetSignals()
                        .NewSession()
                        .Open(STDIN_FILENO, "/dev/null", O_RDONLY)
                        .Open(STDOUT_FILENO, "/dev/null", O_WRONLY)
                        .Open(STDERR_FILENO, "/dev/null", O_WRONLY)
                        .CloseFrom(STDERR_FILENO + 1)
                        .RunFromPath({"xdg-open", address});
  if (pid < 0) {
    PrintNotice(
        globals,
        "warning: --open: there is no xdg-open here; open the address in a "
        "browser");
  }
}

void Announce(const ServeOptions& options, const std::string& address,
              const StoreLayout& layout, const GlobalOptions& globals) {
  std::cout << address << std::endl;
  const std::string with = options.control ? ", with --control" : ", read-only";
  PrintNotice(globals, "serving store " + layout.root().string() + with +
                           "; Ctrl-C ends it");
  if (options.socket.empty()) return;
  PrintNotice(globals,
              "forward the socket, then open the address: ssh -L "
              "7878:" +
                  QuotePathForShell(
                      std::filesystem::absolute(options.socket).string()) +
                  " THIS-MACHINE");
}

int Serve(const ServeOptions& options, const GlobalOptions& globals) {
  if (!HasPage()) {
    throw Error(ErrorKind::kResources,
                "this dtrain was built without the page; install node-d3 and "
                "build again");
  }
  const int requested_port = PortOfOption(options.port);
  const StoreLayout layout = FindStore(globals);
  const WebRules rules{.token = NewToken(), .control = options.control};
  SignalWatch signals;
  LivePage page(layout, rules, globals);
  UniqueFd listener =
      options.socket.empty()
          ? ListenAt({"127.0.0.1", requested_port}, {.only_here = true})
          : ListenOnSocket(options.socket);
  const SocketFile file(options.socket);
  const int port = options.socket.empty() ? GetPort(listener.get()) : 7878;
  const std::string address =
      "http://127.0.0.1:" + std::to_string(port) + "/#token=" + rules.token;
  std::optional<WebServer> server;
  server.emplace(std::move(listener),
                 [&](std::uint64_t exchange, const WebRequest& request) {
                   return page.Answer(*server, exchange, request);
                 });
  Announce(options, address, layout, globals);
  if (options.open) OpenBrowser(address, globals);
  return 128 + server->Run(signals, [&] { page.Poll(*server); });
}

}  // namespace

CommandRun SetUpServe(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  const CliOption port = AddOption(app, "--port", options->port,
                                   "Port on 127.0.0.1 (0: any free one)")
                             .TypeName("PORT")
                             .ShowDefault();
  AddOption(app, "--socket", options->socket,
            "Listen on a Unix socket of mode 0600 instead")
      .TypeName("PATH")
      .IsPath()
      .Excludes(port);
  AddFlag(app, "--control", options->control,
          "Allow the page to pause, resume, cancel, kill, label and note");
  AddFlag(app, "--open", options->open, "Open the page in a browser");
  SetHelp(app,
          {.notes = "Prints the address with a secret token. Only programs of "
                    "this machine can connect; from another one use ssh -L.",
           .exits = {{kExitUsage},
                     {kExitStore},
                     {kExitResources, "the port or socket is in use"},
                     {130, "ended by Ctrl-C"}},
           .examples = {{"Watch all experiments in a browser", "dtrain serve"},
                        {"Let the page pause and cancel, too",
                         "dtrain serve --control --port 0"}}});
  return RunWith(Serve, options);
}

}  // namespace dtrain
