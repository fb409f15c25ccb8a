// Where the time of profiled trials went.

#include "engine/store/database.h"
#include "engine/store/statements.h"
#include "engine/store/store.h"

namespace dtrain {
namespace {

PhaseSeconds ReadSeconds(Columns& columns) {
  PhaseSeconds seconds;
  for (double& phase : seconds) phase = columns.Number();
  return seconds;
}

}  // namespace

void StoreWriter::AddProfile(TrialId trial, const ProfileReport& profile) {
  SQLite::Statement& insert = statements_(
      "INSERT OR REPLACE INTO profiles (trial, batches, trained, samples, "
      "minor_faults, peak_bytes, gpu_bytes, gpu_percent, time, data, forward, "
      "backward, exchange, optimizer, report, validation, checkpoint, other) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
      "?15, ?16, ?17, ?18)");
  BindAll(insert, statements_.TrialKey(trial), profile.batches, profile.trained,
          profile.samples, profile.minor_faults, profile.peak_bytes,
          profile.gpu_bytes, profile.gpu_percent, profile.time);
  int index = 9;
  for (const double phase : profile.seconds) {
    Bind(insert, ++index, FiniteOrZero(phase));
  }
  insert.exec();
  insert.reset();
}

std::optional<ProfileReport> Store::Profile(TrialId id) const {
  // total() and not sum(), which fails where integers overflow.
  constexpr const char* kSums =
      "SELECT count(*), coalesce(max(p.batches), 0), "
      "CAST(total(trained) AS INTEGER), CAST(total(samples) AS INTEGER), "
      "total(data), total(forward), total(backward), total(exchange), "
      "total(optimizer), "
      "total(report), total(validation), total(checkpoint), total(other), "
      "CAST(total(minor_faults) AS INTEGER), coalesce(max(peak_bytes), 0), "
      "max(gpu_bytes), CAST(round(avg(gpu_percent)) AS INTEGER), "
      "coalesce(max(time), 0) FROM profiles p JOIN trials t ON t.id = p.trial "
      "WHERE t.experiment = ?1 AND t.number = ?2";
  return connection_->Guard([&]() -> std::optional<ProfileReport> {
    SQLite::Statement query(*connection_->database, kSums);
    BindAll(query, id.experiment, id.number);
    query.executeStep();
    Columns columns(query);
    if (columns.Int() == 0) return std::nullopt;
    return ProfileReport{.batches = columns.Int(),
                         .trained = columns.Int(),
                         .samples = columns.Int(),
                         .seconds = ReadSeconds(columns),
                         .minor_faults = columns.Int(),
                         .peak_bytes = columns.Int(),
                         .gpu_bytes = columns.MaybeInt(),
                         .gpu_percent = columns.MaybeInt(),
                         .time = columns.Time()};
  });
}

}  // namespace dtrain
