//! The texts below the options in the help of each command: examples, environment variables and
//! exit codes.

pub(super) const TOP: &str = "\
Examples:
  respondent                               start the server
  respondent run codex                     run Codex with it, without any setup
  respondent codex setup                   set Codex up for it
  respondent check                         see what it would serve
  respondent doctor                        find out what is wrong, with real requests
  respondent status                        see what it is doing, and the costs
  respondent models                        list the models that can be used
  respondent bundle create                 save the newest failed turn, to report it
  respondent help artifacts show           explain one command

Environment variables (flags override them, and they override the file):
  OPENAI_API_KEY, MOONSHOT_API_KEY, ...    the key of a provider, which turns it on;
                                           `respondent models --all` names them all
  RESPONDENT_CONFIG                        the configuration file, like --config
  RESPONDENT_LISTEN                        the address, like --listen
  RESPONDENT_DATA_DIR                      the directory for data, like --data-dir
  RESPONDENT_TOKEN, RESPONDENT_TOKEN_FILE  the token of clients, or a file with it
  RESPONDENT_LOG                           what is logged, like --log
  HTTPS_PROXY, HTTP_PROXY, NO_PROXY        the proxy on the way to providers
  NO_COLOR                                 no colours, like --color never";

pub(super) const SERVE: &str = "\
Examples:
  respondent serve
  respondent serve --listen 127.0.0.1:9000 --log warn";

pub(super) const START: &str = "\
Examples:
  respondent start                             then: respondent run codex
  respondent start --listen 127.0.0.1:9000
  respondent start --config proxy-config.toml

Exit code: 0 if the server answers, also one that ran before; else that of the server, or 1.";

pub(super) const STOP: &str = "\
Examples:
  respondent stop
  respondent stop --listen 127.0.0.1:9000

A second `respondent stop` does not wait for turns that run.";

pub(super) const RESTART: &str = "\
Examples:
  respondent restart";

pub(super) const LOGS: &str = "\
Examples:
  respondent logs
  respondent logs -n 200
  respondent logs -f";

pub(super) const SERVICE_INSTALL: &str = "\
Examples:
  respondent service install
  respondent service install --config proxy-config.toml
  respondent service install --dry-run";

pub(super) const SERVICE_REMOVE: &str = "\
Examples:
  respondent service remove
  respondent service remove --dry-run";

pub(super) const CHECK: &str = "\
Examples:
  respondent check
  respondent check --config proxy-config.toml
  respondent check --json

Without a server this checks files and variables alone. If a server runs at the address, this also \
says in what it differs from this shell.";

pub(super) const SCHEMA: &str = "\
Examples:
  respondent schema > proxy-config.schema.json
  respondent schema --provider > provider.schema.json

A TOML file names its schema in its first line: #:schema ./proxy-config.schema.json";

pub(super) const MODELS: &str = "\
Examples:
  respondent models                        the models of the providers that are on
  respondent models --all                  those of all providers that are known
  respondent models --provider moonshot    those of one provider
  respondent models --json
  respondent models --learned              what was learned of models, and from what

The list is that of the running server, or of this shell if none runs. Providers are also asked for \
the models that they list themselves. Prices are US dollars for a \
million tokens; + marks higher prices for long requests.";

pub(super) const DOCTOR: &str = "\
Examples:
  respondent doctor                        this machine, and all providers that are on
  respondent doctor --provider moonshot    this machine and one provider
  respondent doctor --url https://llm.example/v1 --key-env LLM_KEY
  respondent doctor --url https://llm.example/v1 --key-env LLM_KEY --provider llm --write
  respondent doctor --provider moonshot --overflow
  respondent doctor --search               also ask each search engine

The exit code is 1 if a check failed.";

pub(super) const USAGE: &str = "\
Examples:
  respondent usage
  respondent usage --since 30d
  respondent usage --since 3h --json

Sums are kept for a year, those of hours for a week. A running server stores them every minute.";

pub(super) const CLIENTS_ADD: &str = "\
Examples:
  respondent clients add alice
  respondent clients add ci-runner

Nothing is written: paste the lines into the configuration file of the server, which takes effect \
within seconds, and give the token to the client.";

pub(super) const CLIENTS_LIST: &str = "\
Examples:
  respondent clients list
  respondent clients list --json";

pub(super) const CLIENTS_REMOVE: &str = "\
Examples:
  respondent clients remove alice

What the client has stored stays.";

pub(super) const MCP: &str = "\
Examples:
  respondent mcp
  codex mcp add respondent -- respondent mcp";

pub(super) const REPLAY: &str = "\
Examples:
  respondent replay respondent-req_0f5a19f7.tar.zst
  respondent replay turns.tar.zst --turn 2 --events
  respondent replay turns.tar.zst --turn 2 --live moonshot/kimi-k3

Exit code: 0 if everything is equal, 1 if something differs (the differences are printed), 65 if \
the file cannot be used, 70 if the replay could not be run to its end, 2 if the command line or \
the configuration is invalid.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  respondent completions bash > ~/.local/share/bash-completion/completions/respondent
  respondent completions zsh > ~/.zfunc/_respondent
  respondent completions fish > ~/.config/fish/completions/respondent.fish

The folder must exist. To update the script, run the command again.";

pub(super) const MAN: &str = "\
Examples:
  respondent man | man -l -
  respondent man ~/.local/share/man/man1";

pub(super) const BUNDLE_CREATE: &str = "\
Examples:
  respondent bundle create                     the newest turn of an agent that failed
  respondent bundle create --last              the newest turn
  respondent bundle create --request 0f5a19f7  the turn with this id
  respondent bundle create --since 1h --output turns.tar.zst";

pub(super) const BUNDLE_LIST: &str = "\
Examples:
  respondent bundle list                       the newest 20
  respondent bundle list --all --json          with whole ids";

pub(super) const BUNDLE_SHOW: &str = "\
Examples:
  respondent bundle show respondent-req_0f5a19f7.tar.zst";

pub(super) const BUNDLE_DIFF: &str = "\
Examples:
  respondent bundle diff before.tar.zst after.tar.zst

Exit code: 0 if the turns are equal, 1 if they differ, 65 if a file cannot be used.";

pub(super) const ARTIFACTS_LIST: &str = "\
Examples:
  respondent artifacts list
  respondent artifacts list --limit 100
  respondent artifacts list --json             with whole ids";

pub(super) const ARTIFACTS_SHOW: &str = "\
Examples:
  respondent artifacts show 0f5a19f7
  respondent artifacts show 0f5a19f7 --lines 10-40";

pub(super) const ARTIFACTS_SEARCH: &str = "\
Examples:
  respondent artifacts search 0f5a19f7 error -i -C 2
  respondent artifacts search 0f5a19f7 'warn|error' --regex

Exit code: 0 if something was found, 1 if not or if the search failed.";

pub(super) const ARTIFACTS_DELETE: &str = "\
Examples:
  respondent artifacts delete 0f5a19f7
  respondent artifacts delete 0f5a19f7 1b2c3d4e";

pub(super) const ARTIFACTS_GC: &str = "\
Examples:
  respondent artifacts gc";

pub(super) const SEARCH: &str = "\
Examples:
  respondent search rust async traits
  respondent search tokio select --domain docs.rs --results 3
  respondent search 'what is new in rust' --json

Exit code: 0 if something was found, 1 if not or if the search failed.";

pub(super) const OPEN: &str = "\
Examples:
  respondent open https://example.com/
  respondent open https://example.com/ --find license
  respondent open https://example.com/ --markdown > page.md

Exit code: 0 if the page was read, 1 if not.";

pub(super) const STATUS: &str = "\
Examples:
  respondent status
  respondent status --all                      this week, all providers and the disk, too
  respondent status --json

Costs are US dollars by the prices that `respondent models` shows. Without a running server, what \
was used before is read from the data directory.";

pub(super) const RUN_CODEX: &str = "\
Examples:
  respondent run codex
  respondent run codex --model kimi-k3
  respondent run codex exec 'fix the tests'    any arguments of Codex
  respondent run codex resume --last           go on with the last session

Exit code: that of Codex, or 128 plus the number of the signal that ended it.";

pub(super) const CODEX_SETUP: &str = "\
Examples:
  respondent codex setup                       then: codex -p respondent
  respondent codex setup --model kimi-k3
  respondent codex setup --default             for plain `codex`, the app and the IDE
  respondent codex setup --dry-run             see what would be written

The models are those of the running server, or of this shell if none runs.";

pub(super) const CODEX_REMOVE: &str = "\
Examples:
  respondent codex remove";

pub(super) const CODEX_STATUS: &str = "\
Examples:
  respondent codex status";

pub(super) const STORE_STATS: &str = "\
Examples:
  respondent store stats
  respondent store stats --json";

pub(super) const STORE_CHECK: &str = "\
Examples:
  respondent store check

Exit code: 0 if nothing is wrong, 1 if something is.";

pub(super) const STORE_BACKUP: &str = "\
Examples:
  respondent store backup respondent.db

To restore it, stop the server, replace artifacts/artifacts.db in the data directory with this \
file, and delete artifacts.db-wal and artifacts.db-shm beside it.";

pub(super) const STORE_EXPORT: &str = "\
Examples:
  respondent store export responses.jsonl

Background responses that have not ended are left out, and so are tool outputs.";

pub(super) const STORE_IMPORT: &str = "\
Examples:
  respondent store import responses.jsonl      while no server runs
  respondent store import responses.jsonl --data-dir /srv/respondent";

pub(super) const STORE_PURGE: &str = "\
Examples:
  respondent store purge                       asks first
  respondent store purge --yes

Recorded turns are files of their own in the directory bundles, and stay.";

pub(super) const WORKFLOWS_LIST: &str = "\
Examples:
  respondent workflows list";

pub(super) const WORKFLOWS_SHOW: &str = "\
Examples:
  respondent workflows show wf_deep_research";

pub(super) const WORKFLOWS_RUN: &str = "\
Examples:
  respondent workflows run wf_deep_research How do heat pumps cope with frost
  respondent workflows run wf_review --var branch=main --model kimi-k2

Exit code: 0 if the run is completed, 1 if it failed or waits for a person.";

pub(super) const WORKFLOWS_ANSWER: &str = "\
Examples:
  respondent workflows answer resp_0f5a19f7c3d24be1a6a0d1c2b3e4f506 --approve
  respondent workflows answer resp_0f5a19f7c3d24be1a6a0d1c2b3e4f506 --refuse --reason outdated

Exit code: 0 if the run is completed, 1 if it failed or waits for a person.";

pub(super) const JOBS_LIST: &str = "\
Examples:
  respondent jobs list
  respondent jobs list --json                  with whole ids";

pub(super) const JOBS_SHOW: &str = "\
Examples:
  respondent jobs show 0f5a19f7";

pub(super) const JOBS_CANCEL: &str = "\
Examples:
  respondent jobs cancel 0f5a19f7";

pub(super) const JOBS_TAIL: &str = "\
Examples:
  respondent jobs tail 0f5a19f7

Exit code: 0 if the response is completed, 1 if it ended otherwise.";
