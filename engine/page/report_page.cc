#include "engine/page/report_page.h"

#include <map>
#include <span>

#include "engine/base/text.h"
#include "engine/os/sha256.h"
#include "engine/page/bundle.h"

namespace dtrain {
namespace {

// Source expression of a Content-Security-Policy: 'sha256-…'.
std::string HashSource(std::string_view text) {
  const std::string hex = ComputeSha256(std::as_bytes(std::span(text)));
  std::string digest;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    digest += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return "'sha256-" + Base64(digest) + "'";
}

// Replaces each @name@ in the template once, so that a value cannot contain
// another placeholder.
std::string Fill(std::string_view html,
                 const std::map<std::string, std::string>& values) {
  std::string filled;
  while (!html.empty()) {
    const std::size_t at = html.find('@');
    filled += html.substr(0, at);
    if (at == html.npos) break;
    const std::size_t end = html.find('@', at + 1);
    const auto found =
        end == html.npos
            ? values.end()
            : values.find(std::string(html.substr(at + 1, end - at - 1)));
    if (found == values.end()) {
      filled += '@';
      html.remove_prefix(at + 1);
    } else {
      filled += found->second;
      html.remove_prefix(end + 1);
    }
  }
  return filled;
}

}  // namespace

bool HasPage() { return std::string_view(kPage_html).size() > 1; }

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : ToValidUtf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\n':
      case '\t':
        escaped += c;
        break;
      default:
        // HTML has no control characters; U+FFFD stands for them.
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          escaped += "\xEF\xBF\xBD";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

std::string ReportHtml(const ReportText& text, std::string_view bundle) {
  const std::string script = std::string(kPage_libraries) + kPage_script;
  const std::string policy =
      "default-src 'none'; script-src " + HashSource(script) + "; style-src " +
      HashSource(kPage_style) + "; base-uri 'none'; form-action 'none'";
  return Fill(kPage_html, {{"csp", policy},
                           {"title", EscapeHtml(text.title)},
                           {"style", kPage_style},
                           {"script", script},
                           {"noscript", text.noscript},
                           {"footer", EscapeHtml(text.footer)},
                           {"data", Base64(Gzip(bundle))}});
}

}  // namespace dtrain
