-- A store of schema version 6: that of store_version5.sql, migrated by the statements of dtrain
-- 0.1.0 (sqlite3's .dump).
PRAGMA application_id = 1146376782;
PRAGMA user_version = 6;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE experiments (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  labels TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN (
    'PENDING', 'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELED', 'ERROR')),
  progress REAL NOT NULL DEFAULT 0,
  searcher TEXT NOT NULL,
  metric TEXT NOT NULL,
  smaller_is_better INTEGER NOT NULL CHECK (smaller_is_better IN (0, 1)),
  seed INTEGER NOT NULL,
  archived INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
  error TEXT NOT NULL DEFAULT '',
  created INTEGER NOT NULL,
  started INTEGER,
  ended INTEGER,
  seconds REAL NOT NULL DEFAULT 0,
  trials INTEGER NOT NULL DEFAULT 0,
  trials_ended INTEGER NOT NULL DEFAULT 0,
  best_trial_id INTEGER REFERENCES trials (id),
  best_trial INTEGER,
  best_value REAL,
  best_batches INTEGER
) STRICT;
INSERT INTO experiments VALUES(1,'version two','','["night"]','COMPLETED',1.0,'random','loss',1,7,0,'',1795264349041193,1795264349067575,1795264350013044,0.94590963400000005467,2,2,2,2,0.73849237954106150549,40);
CREATE TABLE experiment_details (
  experiment INTEGER PRIMARY KEY REFERENCES experiments (id),
  yaml TEXT NOT NULL,
  config TEXT NOT NULL,
  provenance TEXT NOT NULL
, note TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO experiment_details VALUES(1,replace('name: version one\nlabels: [night]\nentrypoint: builtin:FaultTrial\nhyperparameters: {x: {type: double, minval: 0, maxval: 1}}\nsearcher: {name: random, metric: loss, max_length: 40, max_trials: 2, max_concurrent_trials: 1}\nscheduling_unit: 20\nmin_validation_period: 20\nreproducibility: {experiment_seed: 7}\nresources: {slots: cpu}\n','\n',char(10)),'{"checkpoint_policy":"best","checkpoint_storage":{"path":null,"save_experiment_best":0,"save_trial_best":1,"save_trial_latest":1},"data":{},"description":null,"early_stopping":null,"entrypoint":"builtin:FaultTrial","environment":{"environment_variables":{}},"hang_timeout":600,"hyperparameters":{"x":{"maxval":1,"minval":0,"type":"double"}},"labels":["night"],"max_restarts":5,"min_checkpoint_period":{"batches":0},"min_validation_period":{"batches":20},"name":"version one","optimizations":{"aggregation_frequency":1,"average_aggregated_gradients":true,"average_training_metrics":true,"channels_last":"auto","clip_gradients":null,"cuda_graphs":"auto","loss_scale":null,"mixed_precision":"none","sink_size":0,"update_in_backward":false},"perform_initial_validation":false,"profiling":{"enabled":false},"records_per_epoch":0,"reproducibility":{"experiment_seed":7},"resources":{"executor":"local","max_slots":null,"slots":"cpu","slots_per_trial":1,"slurm":{}},"scheduling_unit":20,"searcher":{"max_concurrent_trials":1,"max_length":{"batches":40},"max_time":null,"max_trials":2,"metric":"loss","name":"random","points":[],"smaller_is_better":true,"source_checkpoint_uuid":null,"source_trial_id":null,"time_metric":null},"time_limit":null}','{"host":"box","slots":{"count":1,"gpus":0,"threads":2}}','of version two');
CREATE TABLE trials (
  id INTEGER PRIMARY KEY,
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  number INTEGER NOT NULL CHECK (number > 0),
  request_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN (
    'PENDING', 'RUNNING', 'PAUSED', 'COMPLETED', 'CANCELED', 'ERROR',
    'STOPPED')),
  reason TEXT NOT NULL,
  hparams TEXT NOT NULL,
  seed INTEGER NOT NULL,
  batches INTEGER NOT NULL,
  rung INTEGER NOT NULL,
  best_value REAL,
  best_batches INTEGER,
  latest_value REAL,
  latest_special INTEGER,
  latest_batches INTEGER,
  restarts INTEGER NOT NULL,
  runs INTEGER NOT NULL,
  pid INTEGER NOT NULL DEFAULT 0,
  pid_start INTEGER NOT NULL DEFAULT 0,
  boot_id TEXT NOT NULL DEFAULT '',
  created INTEGER NOT NULL,
  started INTEGER,
  ended INTEGER,
  seconds REAL NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
  UNIQUE (experiment, number)
) STRICT;
INSERT INTO trials VALUES(1,1,1,'19c2a8c7-f629-4851-8396-3b70d3d06cfa','COMPLETED','','{"x":0.07630828937395717}',959775639,40,1,0.76432369568851954433,40,0.76432369568851954433,0,40,0,1,0,0,'',1795264349067597,1795264349841137,1795264349915770,0.079183155000000005063,2);
INSERT INTO trials VALUES(2,1,2,'b9ecd94e-8edd-4a89-970a-8d43486e4980','COMPLETED','','{"x":0.4555849133282118}',372560217,40,1,0.73849237954106150549,40,0.73849237954106150549,0,40,0,1,0,0,'',1795264349915801,1795264349921079,1795264350004399,0.082769034000000005213,0);
CREATE TABLE metric_names (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO metric_names VALUES(1,'acc');
INSERT INTO metric_names VALUES(2,'loss');
CREATE TABLE experiment_metrics (
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  name INTEGER NOT NULL REFERENCES metric_names (id),
  PRIMARY KEY (experiment, name)
) STRICT, WITHOUT ROWID;
INSERT INTO experiment_metrics VALUES(1,1);
INSERT INTO experiment_metrics VALUES(1,2);
CREATE TABLE metrics (
  trial INTEGER NOT NULL,
  kind INTEGER NOT NULL CHECK (kind IN (0, 1)),
  batches INTEGER NOT NULL,
  name INTEGER NOT NULL,
  epoch REAL NOT NULL,
  value REAL,
  special INTEGER NOT NULL CHECK ((special = 0) = (value IS NOT NULL)),
  time INTEGER NOT NULL,
  PRIMARY KEY (trial, kind, batches, name)
) STRICT, WITHOUT ROWID;
INSERT INTO metrics VALUES(1,0,20,1,0.2000000000000000111,0.042508170028321488886,0,1795264349873562);
INSERT INTO metrics VALUES(1,0,20,2,0.2000000000000000111,0.95749182997167847641,0,1795264349873562);
INSERT INTO metrics VALUES(1,0,40,1,0.4000000000000000222,0.18217713334778290468,0,1795264349873747);
INSERT INTO metrics VALUES(1,0,40,2,0.4000000000000000222,0.81782286665221715082,0,1795264349873747);
INSERT INTO metrics VALUES(1,1,20,1,0.2000000000000000111,0.1166286852638613869,0,1795264349873725);
INSERT INTO metrics VALUES(1,1,20,2,0.2000000000000000111,0.88337131473613861309,0,1795264349873725);
INSERT INTO metrics VALUES(1,1,40,1,0.4000000000000000222,0.23567630431148045566,0,1795264349873796);
INSERT INTO metrics VALUES(1,1,40,2,0.4000000000000000222,0.76432369568851954433,0,1795264349873796);
INSERT INTO metrics VALUES(2,0,20,1,0.2000000000000000111,0.06833948617577953466,0,1795264349937954);
INSERT INTO metrics VALUES(2,0,20,2,0.2000000000000000111,0.93166051382422043758,0,1795264349937954);
INSERT INTO metrics VALUES(2,0,40,1,0.4000000000000000222,0.20800844949524094351,0,1795264349938059);
INSERT INTO metrics VALUES(2,0,40,2,0.4000000000000000222,0.79199155050475888995,0,1795264349938059);
INSERT INTO metrics VALUES(2,1,20,1,0.2000000000000000111,0.14246000141131942573,0,1795264349938039);
INSERT INTO metrics VALUES(2,1,20,2,0.2000000000000000111,0.85753999858868057426,0,1795264349938039);
INSERT INTO metrics VALUES(2,1,40,1,0.4000000000000000222,0.2615076204589384945,0,1795264349938084);
INSERT INTO metrics VALUES(2,1,40,2,0.4000000000000000222,0.73849237954106150549,0,1795264349938084);
CREATE TABLE validations (
  trial INTEGER NOT NULL REFERENCES trials (id),
  batches INTEGER NOT NULL,
  value REAL,
  special INTEGER NOT NULL CHECK ((special = 0) = (value IS NOT NULL)),
  PRIMARY KEY (trial, batches)
) STRICT, WITHOUT ROWID;
INSERT INTO validations VALUES(1,20,0.88337131473613861309,0);
INSERT INTO validations VALUES(1,40,0.76432369568851954433,0);
INSERT INTO validations VALUES(2,20,0.85753999858868057426,0);
INSERT INTO validations VALUES(2,40,0.73849237954106150549,0);
CREATE TABLE checkpoints (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE,
  trial INTEGER NOT NULL REFERENCES trials (id),
  state TEXT NOT NULL CHECK (state IN ('COMPLETED', 'DELETED', 'CORRUPT')),
  batches INTEGER NOT NULL,
  epoch REAL NOT NULL,
  bytes INTEGER NOT NULL,
  files TEXT NOT NULL,
  time INTEGER NOT NULL
) STRICT;
INSERT INTO checkpoints VALUES(1,'fc939c2c-74db-429d-b110-0f364ef45e3d',1,'COMPLETED',40,0.4000000000000000222,11625,'{"MANIFEST.json":"6763a2702a5210cc7448f94c72a9a2a336c2a5322611d2f37395f8b27e5cc637","model.safetensors":"9bbcbf73561f6bc5d0a17ea6a2081feed2d1304e87602d8c502d9a5c4bd85576","optimizer.safetensors":"9bbcbf73561f6bc5d0a17ea6a2081feed2d1304e87602d8c502d9a5c4bd85576","state.json":"4647bd641d8a666c58044bc7565e4ec5b9f5b202707438bf95a05ef498e14f16"}',1795264349900905);
INSERT INTO checkpoints VALUES(2,'ab70c629-75d4-414a-adc4-731951a481ba',2,'COMPLETED',40,0.4000000000000000222,11624,'{"MANIFEST.json":"0993fda8736f118498b3f2b165323ef103709083d243761c720a9df812e2af88","model.safetensors":"9bbcbf73561f6bc5d0a17ea6a2081feed2d1304e87602d8c502d9a5c4bd85576","optimizer.safetensors":"9bbcbf73561f6bc5d0a17ea6a2081feed2d1304e87602d8c502d9a5c4bd85576","state.json":"48fddfa7ff1e4176a22f2ac7d85b597e63bceb8d4637a5b35edec5274372a74a"}',1795264349972902);
CREATE TABLE searcher_events (
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  seq INTEGER NOT NULL,
  event TEXT NOT NULL,
  operations TEXT NOT NULL,
  PRIMARY KEY (experiment, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO searcher_events VALUES(1,1,'{"event":"started"}','[{"hparams":{"x":0.07630828937395717},"operation":"create","request_id":"19c2a8c7-f629-4851-8396-3b70d3d06cfa","seed":959775639,"trial":0},{"length":40,"operation":"validate_after","trial":0},{"operation":"close","trial":0}]');
INSERT INTO searcher_events VALUES(1,2,'{"event":"created","trial":0}','[]');
INSERT INTO searcher_events VALUES(1,3,'{"event":"validation_completed","length":40,"metric":0.7643236956885195,"trial":0}','[]');
INSERT INTO searcher_events VALUES(1,4,'{"event":"closed","trial":0}','[{"hparams":{"x":0.4555849133282118},"operation":"create","request_id":"b9ecd94e-8edd-4a89-970a-8d43486e4980","seed":372560217,"trial":1},{"length":40,"operation":"validate_after","trial":1},{"operation":"close","trial":1}]');
INSERT INTO searcher_events VALUES(1,5,'{"event":"created","trial":1}','[]');
INSERT INTO searcher_events VALUES(1,6,'{"event":"validation_completed","length":40,"metric":0.7384923795410615,"trial":1}','[]');
INSERT INTO searcher_events VALUES(1,7,'{"event":"closed","trial":1}','[{"failed":false,"operation":"shutdown"}]');
CREATE TABLE searcher_snapshots (
  experiment INTEGER PRIMARY KEY REFERENCES experiments (id),
  seq INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT;
CREATE TABLE requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  experiment INTEGER NOT NULL REFERENCES experiments (id),
  trial INTEGER CHECK (trial > 0),
  kind TEXT NOT NULL CHECK (kind IN ('pause', 'cancel', 'kill')),
  created INTEGER NOT NULL,
  done INTEGER NOT NULL DEFAULT 0 CHECK (done IN (0, 1))
) STRICT;
CREATE TABLE profiles (
  trial INTEGER NOT NULL REFERENCES trials (id),
  batches INTEGER NOT NULL,
  trained INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  data REAL NOT NULL,
  forward REAL NOT NULL,
  backward REAL NOT NULL,
  optimizer REAL NOT NULL,
  report REAL NOT NULL,
  validation REAL NOT NULL,
  checkpoint REAL NOT NULL,
  other REAL NOT NULL,
  minor_faults INTEGER NOT NULL,
  peak_bytes INTEGER NOT NULL,
  gpu_bytes INTEGER,
  gpu_percent INTEGER,
  time INTEGER NOT NULL, exchange REAL NOT NULL DEFAULT 0,
  PRIMARY KEY (trial, batches)
) STRICT, WITHOUT ROWID;
INSERT INTO profiles VALUES(1,20,20,640,0.5,1.0,2.0,0.25,0.125,0.0,0.0,0.0625,50,1048576,NULL,NULL,1700000000000000,0.0);
CREATE TABLE evaluations (
  id INTEGER PRIMARY KEY,
  trial INTEGER NOT NULL REFERENCES trials (id),
  checkpoint TEXT NOT NULL,
  batches INTEGER NOT NULL,
  split TEXT NOT NULL CHECK (split IN ('training', 'validation', 'test')),
  data TEXT NOT NULL,
  metrics TEXT NOT NULL,
  seconds REAL NOT NULL,
  time INTEGER NOT NULL
) STRICT;
INSERT INTO evaluations VALUES(1,2,'ab70c629',40,'validation','','{"loss":0.5}',1.5,1700000000000000);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('experiments',1);
CREATE INDEX checkpoints_by_trial ON checkpoints (trial, batches);
CREATE INDEX requests_by_experiment ON requests (experiment, done);
CREATE INDEX experiments_by_best_trial ON experiments (best_trial_id);
CREATE INDEX evaluations_by_trial ON evaluations (trial);
COMMIT;
