#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace dtrain {

/// How the rows of one kind are shown.
template <typename Row>
struct Listing {
  std::string name;  // of the rows in JSON
  std::vector<Column> columns;
  std::function<nlohmann::json(const Row&)> json;
  std::function<std::vector<Cell>(const Row&)> cells;
};

/// The rows as they were asked for: as a member of `document` in JSON, as CSV,
/// or as a table.
template <typename Row>
void PrintListing(const Listing<Row>& listing, const std::vector<Row>& rows,
                  Format format, const GlobalOptions& globals,
                  nlohmann::json document = nlohmann::json::object()) {
  if (format == Format::kJson) {
    nlohmann::json array = nlohmann::json::array();
    for (const Row& row : rows) array.push_back(listing.json(row));
    document[listing.name] = std::move(array);
    return PrintJson(document);
  }
  Table table(listing.columns);
  for (const Row& row : rows) table.AddRow(listing.cells(row));
  PrintTable(table, format, globals);
}

/// Leaves the first `limit` rows; 0: all of them.
template <typename Row>
void KeepFirst(std::size_t limit, std::vector<Row>& rows) {
  const bool cut = limit > 0 && limit < rows.size();
  if (cut)
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(limit), rows.end());
}

}  // namespace dtrain
