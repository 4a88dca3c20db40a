#!/usr/bin/env bash
# Proves that the tests notice a missing behaviour. Each row below changes one line of the program so
# that a behaviour is lost; then the test of that requirement must fail. The last rows do the same
# with replays: the corpus of failing turns must show the named difference. Every change needs a
# build of its own, about half an hour in all, so CI only runs the check of the rows.
#
#   tests/mutants.sh [-r ROWS] [FOLDER]
#   tests/mutants.sh --check
#
#   -r ROWS   only the rows whose requirement ids match this regular expression, and no replays
#   FOLDER    the folder for the clone and the builds, which is kept; temporary if left out
#   --check   builds nothing: checks in the working tree that every change still applies to exactly
#             one line and that every named test and bundle exists
#
# The changes are made to the last commit, in a clean clone.
set -euo pipefail

root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
only=
check=
case ${1:-} in
  --check)
    check=1
    shift
    ;;
  -r)
    only=$2
    shift 2
    ;;
esac
work=$(realpath "${1:-$(mktemp -d)}")
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT

if [ -n "$check" ]; then
  cd "$root"
else
  [ -d "$work/clone" ] || git clone --quiet "$root" "$work/clone"
  cd "$work/clone"
  git fetch --quiet origin HEAD
  git reset --quiet --hard FETCH_HEAD
  export CARGO_TARGET_DIR="$work/target" CORPUS_DIR="$work/corpus"
fi
failed=0
checked=0

# fail MESSAGE: reports what is wrong; the script goes on and exits with 1 at its end
fail() {
  echo "FAILED $1"
  failed=1
}

# change FILE SCRIPT: applies the sed script to the file, which must change exactly one line of it
change() {
  local file=$1 script=$2 lines
  if [ ! -f "$file" ]; then
    fail "$file does not exist: $script"
    return 1
  fi
  sed "$script" "$file" > "$work/changed"
  lines=$(diff "$file" "$work/changed" | grep --count '^<' || true)
  if [ "$lines" != 1 ]; then
    fail "$file has $lines lines that this changes, not 1: $script"
    return 1
  fi
  [ -n "$check" ] || cat "$work/changed" > "$file"
}

# has_test SUITE TEST: whether the sources of the suite define the test. The tests of `it` are named
# by strings, all others are functions.
has_test() {
  case $1 in
    adapters) grep --quiet --recursive --word-regexp "fn $2" adapters/src ;;
    outputs) grep --quiet --word-regexp "fn $2" adapters/tests/bounded_outputs.rs ;;
    hostile) grep --quiet --word-regexp "fn $2" adapters/tests/hostile_*.rs ;;
    lib) grep --quiet --recursive --word-regexp "fn $2" src ;;
    corpora) grep --quiet --word-regexp "fn $2" tests/hostile/tests/corpora.rs ;;
    it) grep --quiet --recursive --fixed-strings "$2" tests/it ;;
    *) return 1 ;;
  esac
}

# run_test SUITE TEST: runs one test
run_test() {
  case $1 in
    adapters) cargo test --quiet -p respondent-adapters --lib -- "$2" ;;
    outputs) cargo test --quiet -p respondent-adapters --test bounded_outputs -- --exact "$2" ;;
    hostile) cargo test --quiet -p respondent-adapters --test 'hostile_*' -- --exact "$2" ;;
    lib) cargo test --quiet -p respondent --lib -- "$2" ;;
    corpora) cargo test --quiet -p respondent-hostile --test corpora -- --exact "$2" ;;
    it) cargo test --quiet -p respondent --test it -- "$2" ;;
  esac > "$work/output" 2>&1
}

# row IDS BEHAVIOUR FILE SCRIPT SUITE TEST: BEHAVIOUR says what is wrong after the change. The test
# must pass without the change (the pass "green") and fail with it (the pass "red").
row() {
  local ids=$1 behaviour=$2 file=$3 script=$4 suite=$5 test=$6
  [[ $ids =~ $only ]] || return 0
  case $pass in
    check)
      checked=$((checked + 1))
      change "$file" "$script" || true
      has_test "$suite" "$test" || fail "$ids: there is no test '$test' in $suite"
      ;;
    green)
      run_test "$suite" "$test" && grep --quiet ' [1-9][0-9]* passed' "$work/output" && return
      fail "$ids: '$test' does not pass without the change"
      tail -n 20 "$work/output"
      ;;
    red)
      change "$file" "$script" || return 0
      if ! run_test "$suite" "$test" && grep --quiet 'test result: FAILED' "$work/output"; then
        echo "red    $ids | $behaviour | $suite: $test"
      else
        fail "$ids: '$test' does not fail although $behaviour"
        tail -n 20 "$work/output"
      fi
      git checkout --quiet "$file"
      ;;
  esac
}

# replay BUNDLE: prints the differences; the exit code is that of the command
replay() {
  (cd "$work" && "$CARGO_TARGET_DIR/debug/respondent" replay "$1")
}

# mutant NAME FILE SCRIPT BUNDLE DIFFERENCE: after the change the replay of the bundle must differ,
# and a line of its output must begin with DIFFERENCE (a regular expression)
mutant() {
  local name=$1 file=$2 script=$3 bundle=$4 difference=$5 code=0 output
  change "$file" "$script" || return 0
  if [ "$pass" = check ]; then
    checked=$((checked + 1))
    # The name of a bundle "strict-NAME" is put together from NAME.
    grep --quiet --recursive --fixed-strings "\"${bundle#strict-}\"" tests/it/bundles ||
      fail "$name: there is no bundle $bundle"
    return 0
  fi
  cargo build --quiet
  output=$(replay "$CORPUS_DIR/$bundle.bundle") || code=$?
  if [ "$code" = 1 ] && grep --quiet --extended-regexp "^  $difference" <<< "$output"; then
    echo "ok     $name: $(grep --extended-regexp --max-count 1 "^  $difference" <<< "$output")"
  else
    fail "$name: exit code $code"
    head -n 20 <<< "$output"
  fi
  git checkout --quiet "$file"
}

plan=adapters/src/plan
output=$plan/output
excerpt=$output/excerpt
encode=adapters/src/chat/encode
assembler=adapters/src/responses/assembler

rows() {
row S35 "recorded turns are shown to everybody" src/diagnostics/capture/query.rs \
  's/owner.is_operator() || \*listed.owner == \*owner.0/true/' it \
  "S35 two clients never see each other on any route"
row S35 "a client may use what is for the operator" src/net/owner.rs \
  's/&\*self.0 == LOCAL_OWNER/!self.0.is_empty()/' it \
  "S35 two clients never see each other on any route"
row S35 "the responses of every owner are found" src/store/responses.rs \
  's/WHERE id = ?1 AND owner = ?2";/WHERE id = ?1 AND ?2 = ?2";/' it \
  "S35 whatever two owners do, neither sees an id or a text of the other"
row S35 "of the tokens of two owners the last one counts" src/serve/guard.rs \
  's/if found.iter().any(|other| other.owner != caller.owner) {/if false {/' it \
  "S35 the tokens of two owners in one request are refused, wherever they are"
row S47 "a client has any number of turns at once" src/turn/owner_limits.rs \
  's/is_some_and(|most| count >= most)/is_some_and(|most| count > most + 9)/' it \
  "S47 a client has as many turns at once as it may, and others are not held up"
row S47 "the runs of one client come before those of all others" src/jobs/queue.rs \
  's/^            self.turns.push_back(owner);/            self.turns.push_front(owner);/' it \
  "S47 runs of several clients begin in turn"
row S47 "a client at its limit holds up the others" src/jobs/queue.rs \
  's/owners.find_map(|(at, owner)| Some((at, take(owner)?)))?;/owners.next().and_then(|(at, owner)| Some((at, take(owner)?)))?;/' it \
  "S47 a client at its limit is passed over"
row R32 "requests of runs that wait stay in memory" src/jobs/queue.rs \
  's/^        drop(accepted.memory);/        std::mem::forget(accepted.memory);/' it \
  "R32 requests of runs that wait are on the disk alone"
row R32 "a small request waits behind the large ones of its owner" src/net/memory/mod.rs \
  's/ || self.memory.is_small(bytes) {/ {/' \
  lib r32_a_small_request_does_not_wait_behind_large_ones_of_its_owner
row R32 "no part is left to those who hold little" src/net/memory/mod.rs \
  's/ && used <= limit - limit \/ LAST_PART/ \&\& used <= limit/' \
  lib r32_a_small_request_does_not_wait_behind_large_ones_of_its_owner
row R32 "each event has a copy of a large text" adapters/src/responses/event_buffer.rs \
  's/if piece.len() < SHARED_BYTES {/if !piece.is_empty() {/' it \
  "R32 an answer costs at most four times its size"
row R32 "a body takes its memory step by step" src/serve/body.rs \
  's/share.request(memory_of(likely, likely)).await?;/share.request(memory_of(0, 0)).await?;/' it \
  "R32 a body has all of its memory before it is read, or waits with nothing in hand"
row R32 "a read that nobody waits for goes on" src/store/readers.rs \
  's/^            interrupt.interrupt();/            let _ = interrupt;/' lib \
  r32_a_read_that_nobody_waits_for_is_interrupted
row R32 "a read does not look whether it has to stop" src/store/reading.rs \
  's/if self.stop.load(Ordering::Relaxed) {/if self.stop.load(Ordering::Relaxed) \&\& bytes == usize::MAX {/' lib \
  r32_a_read_stops_between_its_items
row R32 "a text that does not fit is damage" src/store/contents.rs \
  's/^        reserve(reading, text, bytes)?;/        reserve(reading, text, bytes).map_err(|_| StoreError::Damaged("no room"))?;/' lib \
  r32_a_read_without_memory_is_no_damage
row R32 "an item counts as small" src/store/reading.rs \
  's/^impl Small for bool {}/impl Small for bool {} impl Small for super::NewItem {}/' it \
  "R32 layers::stored_texts_have_their_share"
row S35 "a stream outlives the token that asked for it" src/jobs/viewer.rs \
  's/if self.is_done || !self.is_admitted() {/if self.is_done || (self.is_done \&\& !self.is_admitted()) {/' it \
  "S35 the events of a run end with the token that asked for them"
row S3-3.3b "a run that is cancelled before it begins loses its input" src/jobs/queue.rs \
  's/^            input,$/            input: Vec::from_iter(input.into_iter().take(0)),/' it \
  "a run that waits is cancelled without a request"
row S47 "the runs of one client take the last place" src/jobs/queue.rs \
  's/sharing.allows(most, self.running + 1, || held(owner));/sharing.allows(most, self.running + 1, || 0 * held(owner));/' it \
  "S47 runs that hang leave a place for another client"
row S47 "the sockets of one client take the last connections" src/serve/edge.rs \
  's/if !has_connection(&settings, &head, owner) {/if owner.is_empty() \&\& !has_connection(\&settings, \&head, owner) {/' it \
  "S47 idle sockets leave connections for another client"
row S47 "whoever sends no request keeps the connection" src/serve/connections.rs \
  's/connections.find(|(_, (_, connection))| !connection.is_identified());/connections.find(|_| false);/' it \
  "S47 connections without an accepted request give way to others"
row S47 "a connection gives way although its owner is known" src/serve/connections.rs \
  's/connections.find(|(_, (_, connection))| !connection.is_identified());/connections.next();/' it \
  "S47 connections without an accepted request give way to others"
row S47 "the searches of one client take the last place" src/artifacts/mod.rs \
  's/FairPlaces::new(CONCURRENT_SEARCHES, sharing.clone());/{ let _ = sharing; FairPlaces::new(CONCURRENT_SEARCHES, Sharing::default()) };/' lib \
  s47_searches_of_one_owner_leave_a_place_for_another
row S48 "whoever runs the server sees the runs of no client" src/store/jobs.rs \
  's/let sees_all = owner.is_operator();/let sees_all = false;/' it \
  "S48 whoever runs the server sees the runs and the usage of every client"
row S48 "no table names the client" src/log/table.rs \
  's/^        if self.has_clients {$/        if false {/' it \
  "S48 whoever runs the server sees the runs and the usage of every client"
row S48 "usage is that of the operator alone" src/store/usage.rs \
  's/FROM usage WHERE day >= ?1 ORDER BY day DESC,/FROM usage WHERE day >= ?1 AND owner = '"'local'"' ORDER BY day DESC,/' \
  it "S47 S48 a limit of the day outlives a restart, and usage is shown by client"
row S47 "what a turn has used is not stored with its response" src/store/responses.rs \
  's/^    if let Some(spent) = &response.spent {/    if let Some(spent) = response.spent.as_ref().filter(|_| false) {/' it \
  "S47 what was acknowledged counts for the day after a kill"
row S47 "what a turn has used is stored twice" src/metrics/spent.rs \
  's/^        if !is_stored {/        if true {/' lib s47_the_sums_of_a_day_end_with_it
row S47 "what is not stored with a response is stored a minute later" src/metrics/usage.rs \
  's/SPENT_PERIOD: Duration = Duration::from_secs(2);/SPENT_PERIOD: Duration = Duration::from_secs(90);/' it \
  "S47 what was acknowledged counts for the day after a kill"
row S47 "what was used today is not read again" src/commands/serve/server.rs \
  's/usage.restore_spent().await;//' it \
  "S47 S48 a limit of the day outlives a restart, and usage is shown by client"
row R34 "a prompt may cost any number of requests" src/turn/request_budget.rs \
  's/MAX_FAILED_REQUESTS: u32 = 8;/MAX_FAILED_REQUESTS: u32 = 80;/' it \
  "R34 a prompt of Codex costs a failing provider eight requests"
row R34 "an answer does not end the count" src/turn/engine/round.rs \
  's/if failed > 0 {/if failed > 90 {/' it \
  "R34 an answer or another prompt makes room for new requests"
row R35 "an error has only the words of the provider" adapters/src/failed_request.rs \
  's/(Some(status), _) => fault.message = self.reply(fault, status),/(Some(_), _) => {}/' it \
  "R35 an error says who, where, why and what to do"
row R38 "a local server needs the certificates of the system" src/upstream/client.rs \
  's/None => builder.no_proxy().tls_certs_only(\[\]),/None => builder.no_proxy(),/' \
  it "R38 a server on this machine needs no certificates of the system"
row R38 "a server without TLS is asked again and again" src/upstream/transport.rs \
  's/| Self::NoHttp => true,/| Self::NoHttp => false,/' it \
  "R38 a failed connection says why"
row R38 "every bad certificate leads to ca_file" src/upstream/transport.rs \
  's/rustls::Error::InvalidCertificate(_) => Self::BadCertificate,/rustls::Error::InvalidCertificate(_) => Self::UntrustedCertificate,/' it \
  "R38 a certificate that is refused says why"
row R38 "the file of an authority is not read" src/upstream/client.rs \
  's/builder = builder.tls_certs_merge(certificates);/let _ = certificates;/' it \
  "R38 a certificate is trusted once ca_file names it"
row R38 "a connection may take any time" src/upstream/client.rs \
  's/^        .connect_timeout(connect_timeout)$//' lib \
  r38_a_connection_that_is_not_accepted_in_time_is_given_up
row R35 "mistakes of the client are kept" src/diagnostics/capture/mod.rs \
  's/turn.is_worth_writing()/turn.is_failure()/' it \
  "R35 mistakes of the client are not kept"
row R5 "two tools get one name" adapters/src/tools.rs \
  's/^        if !self.wire_names.contains(&hashed) {/        if true {/' \
  adapters r5_tools_with_one_checksum_get_names_of_their_own
row R27 "references of schemas have no room in common" adapters/src/schema/refs.rs \
  's/^        self.0 = left.unwrap_or(self.0);/        let _ = left;/' \
  hostile r27_references_of_schemas_do_not_multiply_a_request
row R27 "a request may have any number of tools" adapters/src/tools/definitions.rs \
  's/^        if toolbox.len() + dropped.len() >= MAX_TOOLS {/        if toolbox.len() == usize::MAX {/' \
  hostile r27_a_request_has_two_thousand_tools_at_most
row R5 "lost fragments of arguments stay lost" $assembler/text_part.rs \
  's/^        let written = self.text.text.get(..self.sent).unwrap_or_default();/        let written = "lost";/' \
  hostile r5_lost_fragments_of_relayed_arguments_are_taken_from_their_end
row R5 "items of an unknown type share the id of a call" $assembler/native/mod.rs \
  's/^        if item_type.is_output() {/        if !item_type.is_call() {/' \
  hostile r5_relayed_items_have_call_ids_of_their_own
row R5 "a search is run by whom its end says" $assembler/native/item.rs \
  's/"role", "execution"\];/"role", "role"];/' \
  hostile r5_a_search_is_run_by_whom_its_beginning_says
row R5 "a call may have the id of an unknown item of the history" adapters/src/turn.rs \
  's/^                item.explicit_call_id().map(Cow::into_owned)/                None/' \
  adapters r5_all_that_names_a_call_has_its_call_id
row R5 "an answer may have any number of calls" adapters/src/chat/decode/calls.rs \
  's/^        if slot >= MAX_CALLS {/        if slot == usize::MAX {/' \
  hostile r5_an_answer_has_limits_for_calls_and_items
row R4 "a text may have any number of annotations" $assembler/text_part.rs \
  's/^        if self.annotations.len() >= MAX_ANNOTATIONS {/        if self.annotations.len() == usize::MAX {/' \
  hostile r4_a_text_has_a_thousand_annotations_at_most
row R27 "a request may have any number of items" adapters/src/responses/request_body.rs \
  's/^        while items.len() < MAX_ITEMS {/        while items.len() < usize::MAX {/' \
  hostile r27_a_request_has_a_hundred_thousand_items_at_most
row R27 "JSON in a blob is not checked" adapters/src/chat/history/reasoning.rs \
  's/^    if !is_sound {/    let is_sound = true; if !is_sound {/' \
  hostile r27_json_in_a_forged_blob_is_checked_like_that_of_a_request
row S2-Ga "outputs of custom tools are not bounded" $output/text.rs \
  's/^    if output_has_parts(kind) {/    if kind == ItemKind::CustomToolCallOutput { None } else if output_has_parts(kind) {/' \
  adapters every_kind_of_output_is_bounded
row S2-Ga "results without a call are not bounded" $plan/bound_outputs/mod.rs \
  's/SequenceEntry::Result(index) | SequenceEntry::Stray(index) => {/SequenceEntry::Stray(_) => {} SequenceEntry::Result(index) => {/' \
  adapters results_without_a_call_are_bounded_too
row S2-Gb "outputs are not bounded" $plan/mod.rs \
  's/^    plan.bound_outputs(turn, bounds, cache, unkept);/    let _ = (cache, unkept, Plan::bound_outputs);/' \
  outputs bounding_alone_keeps_the_founding_session_below_the_threshold
row S2-Ea "a history that does not fit is not cut" $plan/mod.rs \
  's/^    fit_window::fit(turn, bounds, &mut plan);/    let _ = fit_window::fit;/' \
  adapters the_founding_case_fits_with_room_for_the_summary
row S2-Ea "the second request for a summary is as long as the first" src/turn/compact/summary.rs \
  's/for mode in \[SummaryMode::NextTurn, SummaryMode::FitWindow\]/for mode in [SummaryMode::NextTurn, SummaryMode::NextTurn]/' \
  it "compacts by every method and continues"
row "S2-Eb S2-P3" "the catalog leaves the share of the window that is shown to Codex" src/app/models/list.rs \
  's/^const SHOWN_PERCENT: u64 = 95;/const SHOWN_PERCENT: u64 = 100;/' \
  lib a_kimi_model_has_its_whole_window_of_which_codex_shows_95_percent
row "S2-Eb S2-P3" "the threshold of compaction is lowered" src/app/models/list.rs \
  's|window.saturating_mul(9) / 10|window.saturating_mul(8) / 10|' \
  lib a_kimi_model_has_its_whole_window_of_which_codex_shows_95_percent
row S2-Ec "a large request is not captured" src/diagnostics/capture/recorder.rs \
  's|> limit / 4 {|> limit / 4096 {|' it "S2-Ec a large request is kept whole"
row S2-Ed "the count of tokens in Codex's header is not shown" $excerpt/mod.rs \
  's/header.original_tokens.map(|count| count.to_string())/header.original_tokens.filter(|_| false).map(|count| count.to_string())/' \
  adapters the_count_of_tokens_before_a_cut_is_kept
row S2-Ed "minified assets are treated as lines" $excerpt/body.rs \
  's/(_, OutputKind::OpaqueToolOutput) => room.min(240),/(_, OutputKind::OpaqueToolOutput) => room,/' \
  adapters an_excerpt_of_minified_assets_shows_only_the_beginning
row "S2-Ta S2-BT" "a request for a summary has the whole outputs" $plan/mod.rs \
  's/^    plan.bound_outputs(turn, bounds, cache, unkept);/    if turn.purpose.summary_mode().is_none() { plan.bound_outputs(turn, bounds, cache, unkept); }/' \
  outputs a_compaction_gets_no_more_than_the_turns_did
row "S2-Ba S2-Db" "everything is treated as the output of a command" $output/measure.rs \
  's/^        classifier.kind()$/        { let _ = classifier.kind(); OutputKind::CommandOutput }/' \
  adapters every_sample_is_of_the_kind_that_its_folder_says
row S2-Ba "a URL in a text makes it a web page" $output/measure.rs \
  's/^        classifier.kind()$/        if text.contains(":\/\/") { OutputKind::WebOrSearch } else { classifier.kind() }/' \
  adapters large_outputs_are_known_by_all_of_their_text
row S2-Bb "shortened outputs lose their call's id" adapters/src/chat/history/results.rs \
  '0,/let call_id = self.plan.call_id(self.turn, index);/s//let call_id = if self.plan.replacement_text(index).is_some() { "call".into() } else { self.plan.call_id(self.turn, index) };/' \
  outputs only_the_texts_of_outputs_change
row S2-Bc "shortened outputs are not stored" src/turn/failover/encode.rs \
  's/^        let mut artifact_commit = self.store_outputs(turn, &planned.plan);/        let mut artifact_commit: Option<ArtifactCommit> = None; let _ = Self::store_outputs;/' \
  it "a shortened output can be read completely"
row S2-Bc "memory drops what the request names" src/artifacts/memory.rs \
  's/if !named.contains(id) && owners.iter().all(are_over) {/if owners.iter().all(are_over) {/' \
  lib memory_drops_nothing_that_the_same_request_names
row "S2-Bc S2-Bl" "a request names what was not kept" src/turn/failover/encode.rs \
  's/plan::plan_with_unkept(turn, bounds, &self.shared.outputs, unkept)/{ let _ = unkept; plan::plan_with_cache(turn, bounds, \&self.shared.outputs) }/' \
  it "S2-Bc S2-Bl an output for which memory has no room is not named"
row S2-Bd "fixed: 100,000 characters stay whole" $plan/bound_outputs/limits.rs \
  's/(4_000, usize::MAX, MAX_EXCERPT_CHARS,/(100_000, usize::MAX, MAX_EXCERPT_CHARS,/' \
  outputs fixed_bounds_hold_for_every_text_of_up_to_5_mb
row S2-Bd "the lines around an excerpt do not count" $excerpt/mod.rs \
  's/room: limit.saturating_sub(fixed + excerpt.chars().count()),/room: limit,/' \
  adapters no_text_has_an_excerpt_above_the_limit
row S2-Be "half of any window may be outputs" adapters/src/plan/bound_outputs/limits.rs \
  's/let all_outputs = (window \/ 2).min(MAX_ALL_OUTPUTS);/let all_outputs = (window \/ 2).max(MAX_ALL_OUTPUTS);/' \
  adapters a_larger_window_does_not_hold_more_than_400_000_bytes_of_outputs
row S2-Be "outputs have no share of the window" $plan/bound_outputs/replay.rs \
  's/^            self.epoch(.*/            let _ = Self::epoch;/' \
  adapters beyond_half_of_the_window_the_oldest_become_notices
row S2-Be "a round that is too large is not tightened" $plan/bound_outputs/replay.rs \
  's/^            tighten::tighten(new, excess, self.limits);/            let _ = (\&new, tighten::tighten);/' \
  adapters outputs_of_one_round_share_the_room_and_the_newest_come_first
row S2-Be "the oldest of a round come first" $plan/bound_outputs/tighten.rs \
  's/for output in outputs.iter_mut().rev() {/for output in outputs.iter_mut() {/' \
  adapters outputs_of_one_round_share_the_room_and_the_newest_come_first
row S2-Bf "messages with a mark for a cache have the whole output" adapters/src/chat/history/results.rs \
  's/let shown = self.plan.replacement_text(index);/let shown = if marked { None } else { self.plan.replacement_text(index) };/' \
  outputs every_provider_gets_the_same_excerpt
row S2-Bg "fixed: 3,999 characters stay whole" $plan/bound_outputs/limits.rs \
  's/(4_000, usize::MAX, MAX_EXCERPT_CHARS,/(3_999, usize::MAX, MAX_EXCERPT_CHARS,/' \
  adapters within_the_limit_an_output_stays_byte_for_byte
row S2-Bg "fixed: 4,001 characters stay whole" $plan/bound_outputs/limits.rs \
  's/(4_000, usize::MAX, MAX_EXCERPT_CHARS,/(4_001, usize::MAX, MAX_EXCERPT_CHARS,/' \
  adapters within_the_limit_an_output_stays_byte_for_byte
row S2-Bg "bytes count, not characters" $plan/bound_outputs/bounded_output.rs \
  's/let (chars, bytes) = (measure.chars, measure.bytes)/let (chars, bytes) = (measure.bytes, measure.bytes)/' \
  adapters within_the_limit_an_output_stays_byte_for_byte
row S2-Bg "outputs = whole bounds them, too" $plan/bound_outputs/limits.rs \
  's/OutputPolicy::Whole => return None,/OutputPolicy::Whole => (4_000, usize::MAX, MAX_EXCERPT_CHARS, ExcerptStyle::Fixed),/' \
  adapters outputs_stay_whole_under_the_policy_whole
row S2-Bh "no lines of the middle are shown" $excerpt/body.rs \
  's/^        let middle = self.render(&units, between, &ends) + &paths;/        let middle = self.render(\&[], between, \&ends) + \&paths;/' \
  adapters a_command_excerpt_shows_errors_and_paths_of_the_middle
row S2-Bh "words are rare in the text, not in their place" $output/evidence/model.rs \
  's/^                    Some(bits) => bits + alone() \/ 4,/                    Some(_) => alone(),/' \
  adapters a_common_word_in_an_odd_place_is_shown
row S2-Bh "numbers say nothing" $output/evidence/model.rs \
  's/^            TokenKind::Id => 0,/            TokenKind::Id | TokenKind::Number if self.total > 0 => 0, TokenKind::Id => 0,/' \
  adapters one_odd_number_is_shown_where_numbers_are_alike
row S2-Bi "tags are shown" $excerpt/mod.rs \
  's/OutputKind::WebOrSearch if html::is_tagged(text) => Form::Page,/OutputKind::WebOrSearch if html::is_tagged(text) \&\& text.is_empty() => Form::Page,/' \
  adapters a_page_excerpt_shows_titles_and_urls_but_no_tags
row S2-Bj "a document is shown as text" $excerpt/body.rs \
  's/OutputKind::Json => json::shape(text, room \/ 4),/OutputKind::Json => { let _ = json::shape; String::new() }/' \
  adapters a_json_excerpt_shows_the_shape
row S2-Vf "what was asked for is not looked for" $plan/bound_outputs/origin.rs \
  's/message: start(&self.message),/message: "",/' \
  adapters an_excerpt_follows_the_message_before_it_and_no_later_one
row S2-Vf "words of the arguments do not count" $output/evidence/marks.rs \
  's/^const ARGUMENT_BITS: Bits = .*/const ARGUMENT_BITS: Bits = 0;/' \
  adapters a_plain_word_of_the_arguments_is_shown
row S2-Vf "numbers that were asked for are not compared" $output/evidence/marks.rs \
  's/^                        self.has_exact = true;/                        self.has_exact = false;/' \
  adapters numbers_and_short_names_that_were_asked_for_are_shown
row S2-Vf "pairs of characters are not looked for" $output/evidence/marks.rs \
  's/^                        \&\& !is_filler(written)/                        \&\& is_filler(written)/' \
  adapters a_chinese_question_finds_its_lines_in_a_chinese_log
row S2-Vf "unchanged lines of a diff are not searched" $output/evidence/mod.rs \
  's/^            self.add_unchanged(start, end);/            let _ = Self::add_unchanged;/' \
  adapters an_unchanged_line_of_a_diff_is_shown_if_it_was_asked_for
row S2-Vh "the oddest hits do not come first" $excerpt/render.rs \
  's/^    files.sort_by_key(|(_, rank, _)| \*rank);/    files.sort_by_key(|(path, _, _)| *path);/' \
  adapters hits_are_counted_and_shown_by_file_with_the_oddest_first
row S2-Vh "the files with most hits come first where there are many" $excerpt/overview/hits.rs \
  's/^        counts.files.sort_by_key(|(_, hits)| \*hits);/        counts.files.sort_by_key(|(_, hits)| usize::MAX - *hits);/' \
  adapters the_files_with_fewest_hits_are_named_where_there_are_many
row S2-Bj "a long row is shown without its start" $excerpt/body.rs \
  's/^            None => json::row_around(self.text, unit.focus, between)?,/            None => { let _ = json::row_around; return None; }/' \
  adapters a_find_in_a_long_row_of_json_is_shown_with_the_start_of_its_row
row S2-Bn "binary files are not counted" $excerpt/overview/diff.rs \
  's/^                file.is_binary = true;/                file.is_binary = false;/' \
  adapters a_diff_names_its_files_with_their_changes
row S2-Bn "keys with a known prefix are not looked for" $excerpt/overview/diff.rs \
  's/^        is_changed.then_some((line, end, at))/        (is_changed \&\& bytes.is_empty()).then_some((line, end, at))/' \
  adapters what_looks_like_a_secret_is_shown_of_a_diff
row S2-Bo "columns have no numbers" $excerpt/overview/table.rs \
  's/^        if let Some(value) = number(cell) {/        if let Some(value) = number(cell).filter(|_| false) {/' \
  adapters a_table_is_described_by_its_columns
row S2-Bo "rows of another shape are not looked for" $excerpt/overview/table.rs \
  's/^    let other_score = worth(30 \* BIT, other.len());/    let other_score = worth(0, other.len());/' \
  adapters rows_of_another_shape_and_extreme_numbers_are_shown
row S2-Bp "repeats at the ends are not folded" $excerpt/body.rs \
  's/^        let is_alike = is_short \&\& .*/        let is_alike = is_short \&\& start == usize::MAX;/' \
  adapters repeats_at_both_ends_are_folded
row S2-Bp "odd numbers are folded" $excerpt/body.rs \
  's/^        let is_alike = is_short \&\& .*/        let is_alike = is_short;/' \
  adapters an_odd_number_among_repeats_is_not_folded
row S2-Bp "parts of a line count as lines" $excerpt/line_cut.rs \
  's/^        lines += usize::from(!goes_on) + /        lines += usize::from(!goes_on || start > 0) + /' \
  adapters the_lines_left_out_are_counted_from_what_is_shown
row S2-Bq "definitions are looked for in the first lines alone" $excerpt/outline.rs \
  's/^const SEARCHED_BYTES: usize = .*/const SEARCHED_BYTES: usize = 16;/' \
  adapters definitions_of_all_of_a_file_are_listed_with_their_lines
row S2-Bq "headings are never many" $excerpt/overview/headings.rs \
  's/^const MANY: usize = 8;/const MANY: usize = 800;/' \
  adapters the_headings_of_a_long_page_are_named
row S2-Br "small and capital letters count as one" $excerpt/queries.rs \
  's/^        if query.matches < lines$/        if query.matches < lines \&\& lines == 0/' \
  adapters searches_are_named_that_would_find_more
row S2-Br "a long line counts once" $excerpt/queries.rs \
  's/^            at = if is_long {/            at = if is_long \&\& line.is_empty() {/' \
  lib a_search_that_an_excerpt_names_finds_as_many_lines_as_it_says
row S2-Vh "a result is shown without what it is about" $excerpt/body.rs \
  's/OutputKind::Json | OutputKind::WebOrSearch => 2,/OutputKind::Json => 2,/' \
  adapters an_odd_search_result_is_shown_with_its_title_and_address
row S2-Bm "a file has the limit of other outputs" $plan/bound_outputs/limits.rs \
  's/let share = window.saturating_mul(8) \/ 100;/let share = window \/ 100;/' \
  adapters a_file_that_is_read_stays_whole_where_other_outputs_do_not
row S2-Bm "only the last command of a line reads instructions" $plan/bound_outputs/origin.rs \
  "s/    command.split(\['.n', ';', '&'\]).any(|one| {/    command.rsplit(['\\\\n', ';', '\&']).take(1).any(|one| {/" \
  adapters instructions_are_sent_whole_or_not_at_all
row S2-Bm "a summary cuts instructions" $plan/fit_window/mod.rs \
  's/    let text = if is_cut \&\& is_instructions(turn, piece, \&text) {/    let text = if is_cut \&\& text.is_empty() {/' \
  adapters instructions_are_left_out_or_whole_and_never_cut
row S2-Bm "instructions become excerpts" $plan/bound_outputs/origin.rs \
  's/^    "agents.md",/    "agents.mdx",/' \
  adapters instructions_are_sent_whole_or_not_at_all
row S2-Bk "an excerpt is not marked as one" $excerpt/mod.rs \
  's/format!("{SHORTENED_MARK}\]\\nartifact: /format!("artifact: /' \
  adapters nothing_is_shortened_silently_and_nothing_needs_a_store
row S2-Bl "without a store nothing is bounded" $plan/bound_outputs/limits.rs \
  's/OutputPolicy::Whole => return None,/OutputPolicy::Whole => return None, _ if bounds.retention == crate::plan::Retention::Nothing => return None,/' \
  adapters nothing_is_shortened_silently_and_nothing_needs_a_store
row S2-Bl "the excerpt of an output that was not stored promises the rest" $excerpt/mod.rs \
  's/\[The rest was not kept: run/[Or run/' adapters an_excerpt_says_where_the_rest_is_kept
row S2-BT "the count of tokens is lost" $excerpt/mod.rs \
  's/header.original_tokens.map(|count| count.to_string())/header.original_tokens.filter(|_| false).map(|count| count.to_string())/' \
  outputs a_search_result_that_codex_cut_is_bounded_and_keeps_its_count
row S2-BT "small outputs are shortened" $plan/bound_outputs/limits.rs \
  's/(4_000, usize::MAX, MAX_EXCERPT_CHARS,/(400, usize::MAX, MAX_EXCERPT_CHARS,/' \
  outputs a_small_output_is_sent_unchanged
row S2-BT "outputs that are no strings are not bounded" $output/text.rs \
  's/is_hosted()).then_some(OutputShape::Json)/is_hosted()).then_some(OutputShape::Parts)/' \
  outputs an_output_that_is_not_a_string_is_bounded_as_text
row S2-BT "orphans are not bounded" $plan/bound_outputs/mod.rs \
  's/SequenceEntry::Result(index) | SequenceEntry::Stray(index) => {/SequenceEntry::Stray(_) => {} SequenceEntry::Result(index) => {/' \
  outputs an_output_without_its_call_is_bounded
row S2-BT "summaries are shortened" $plan/summary.rs \
  's/Some(blob) => blob.message().into(),/Some(blob) => blob.message().chars().take(5_000).collect::<String>().into(),/' \
  outputs a_summary_is_not_shortened
row S2-BT "a summary that another server has sealed is left out" adapters/src/compaction_blob.rs \
  's/^pub const UNREADABLE_SUMMARY: &str = .*/pub const UNREADABLE_SUMMARY: \&str = "";/' \
  adapters a_compaction_item_is_sent_as_its_summary_or_as_unreadable
row S2-BV "excerpts do not say how much was left out" $excerpt/mod.rs \
  's/let _ = writeln!(excerpt, "\[Left out: .*/let _ = (chars, lines);/' \
  outputs a_body_is_bounded_by_constants_and_says_what_it_leaves_out
row S2-BV "a request shows more of an earlier round than before" $plan/bound_outputs/replay.rs \
  's/^        self.round = self.outputs.len();/        self.round = self.outputs.len() \/ 2;/' \
  adapters what_a_request_sent_stays_until_an_epoch
row S2-Ca "an answer that is not a summary is not asked for again" src/turn/compact/summary.rs \
  's/for mode in \[SummaryMode::NextTurn, SummaryMode::FitWindow\]/for mode in [SummaryMode::NextTurn]/' \
  it "compaction: an answer without a summary leads to a second request"
row S2-P2a "the escapes of the body do not count" adapters/src/shorten.rs \
  's/(Self::Once, _) => json::escaped_byte_len(byte),/(Self::Once, _) => 1,/' \
  adapters any_history_is_cut_to_fit_and_stays_sound
row S2-P2b "the prompt comes first" adapters/src/compact/apply.rs \
  's/turn.items.push(Item::user(SUMMARY_PROMPT.into()));/turn.items.insert(0, Item::user(SUMMARY_PROMPT.into()));/' \
  adapters any_history_is_cut_to_fit_and_stays_sound
row S2-P2c "the oldest come first" $plan/fit_window/select.rs \
  's/units.iter().enumerate().rev()/units.iter().enumerate()/' \
  adapters a_notice_counts_what_is_left_out_and_quotes_the_user
row S2-P2d "outputs go without their calls" $plan/fit_window/units.rs \
  's/(SequenceEntry::Result(index), Some(unit)) => {/(SequenceEntry::Result(index), Some(unit)) if *index == usize::MAX => {/' \
  adapters parallel_calls_go_with_all_their_outputs
row S2-P2e "no notice says what was left out" $plan/fit_window/mod.rs \
  's/if let Some((position, text)) = notice {/if let Some((position, text)) = notice.filter(|_| false) {/' \
  adapters a_notice_counts_what_is_left_out_and_quotes_the_user
row S2-P2f "arguments are cut like texts" $plan/fit_window/mod.rs \
  's/TextRole::Arguments => shorten_arguments(&text, bytes).into(),/TextRole::Arguments if bytes == 0 => shorten_arguments(\&text, bytes).into(), TextRole::Arguments => shorten(\&text, bytes, usize::MAX, EscapeDepth::Once).as_ref().into(),/' \
  adapters one_huge_text_is_shortened_and_all_else_stays
row S2-P2g "fixed: a request for a summary may have more than 120 KiB" $plan/fit_window/budget.rs \
  's/^const FIXED_MESSAGES: usize = 120 \* 1024;/const FIXED_MESSAGES: usize = 140 * 1024;/' \
  adapters the_fixed_policy_has_constant_limits
row S2-P2h "only bounded histories are cut" $plan/fit_window/mod.rs \
  's/Some(SummaryMode::FitWindow) => fit_summary_request/Some(SummaryMode::FitWindow) if bounds.outputs == super::OutputPolicy::Whole => {} Some(SummaryMode::FitWindow) => fit_summary_request/' \
  adapters the_founding_case_fits_with_room_for_the_summary
row S2-Da "an excerpt does not name its call" $excerpt/mod.rs \
  's/^        ("call", line_cut::one_line(call_id, 64)),/        ("call", line_cut::one_line("", call_id.len())),/' \
  outputs an_excerpt_describes_its_output
row S2-Db "a kind has another name" adapters/src/output_kind.rs \
  's/^    OpaqueToolOutput,/    #[strum(serialize = "opaque")] OpaqueToolOutput,/' \
  adapters every_sample_is_of_the_kind_that_its_folder_says
row S2-Dc "parts lose their first byte" src/store/text_range.rs \
  's/let start = text.floor_char_boundary(within(range.start));/let start = text.floor_char_boundary(within(range.start + 1));/' \
  lib an_artifact_is_read_whole_and_in_parts
row S2-Dc "a page ends a line early" src/store/text_range.rs \
  's/map_or(text.len(), |newline| newline + 1)/map_or(text.len(), |newline| newline)/' \
  it "S2-Dc an artifact comes back byte for byte"
row S2-Dd "an access does not extend the life of an artifact" src/store/sweep.rs \
  's/DELETE FROM refs WHERE accessed < ?1 AND NOT/DELETE FROM refs WHERE created < ?1 AND NOT/' \
  lib an_artifact_is_deleted_thirty_days_after_its_last_access
row R50 "a purge keeps the log" src/store/inspection.rs \
  's/if connection.execute_batch("VACUUM").is_err() {/if false {/' \
  lib a_purge_leaves_no_row_and_no_text_in_any_file
row R50 "others may read a backup" src/store/inspection.rs \
  's/^        .mode(0o600)/        .mode(0o644)/' \
  lib a_backup_is_a_private_file_with_everything_while_a_server_writes
row R50 "what an import need not have stays" src/store/transfer.rs \
  's/threads::trim(self.connection, thread)?;/let _ = thread;/' \
  lib what_exists_is_skipped_and_leaves_nothing_twice
row R51 "the text of a piece is lost" src/commands/jobs.rs \
  's/text += &event.delta.unwrap_or_default();/text = event.delta.unwrap_or_default();/' \
  lib the_text_is_found_however_the_stream_is_cut
row S2-Dd "the artifacts of a stored session are swept" src/store/sweep.rs \
  's/^const IS_KEPT: &str = "(EXISTS/const IS_KEPT: \&str = "(0 AND EXISTS/' \
  lib s2_dd_the_artifacts_of_a_stored_session_live_as_long_as_it
row R14 "a run that had begun begins again" src/jobs/recovery.rs \
  's/JobState::Running | JobState::Ended => self.end_interrupted(job).await,/JobState::Running | JobState::Ended => self.wait_again(job).await,/' it \
  "R14 a run that was interrupted ends as failed"
row S3-0b "events are read from the first one on" src/jobs/viewer.rs \
  's/.map_or(0, |after| after.saturating_add(1));/.map_or(0, |_| 0);/' it \
  "S3-0b events are read again from any number on"
row S2-Ea "the user messages of a stored history are lost when it is compacted" \
  adapters/src/responses/request.rs \
  's/Some(history) => serde_json::from_str(history).ok()?,/Some(_) => Vec::new(),/' it \
  "S2-Ea a stored history is compacted like the same items in the request"
row S3-3.3b "a run that has ended is cancelled while its end is stored" src/turn/engine.rs \
  's/if !run.has_ended.load(Relaxed) {/if true {/' it \
  "S3-3.3b a run that is cancelled while its end is stored has ended once"
row S3-3.3b "a run is not cancelled" src/jobs/queue.rs \
  's/^            live.cancelled.cancel();/            let _ = \&live.cancelled;/' it \
  "S3-3.3b cancelling reaches the provider and is idempotent"
row S3-4.1a "each piece of text is an event" src/turn/engine/answer.rs \
  's/coalescer: ctx.run.is_some().then(Box::default),/coalescer: None,/' it \
  "S3-4.1a pieces of text are joined before they are numbered"
row S3-4.2a "each run has a transaction of its own" src/store/group_commit.rs \
  's/if changes.len() > 1 \&\& make/if changes.len() > 100 \&\& make/' \
  lib s3_4_2a_runs_that_wait_at_the_same_time_are_written_in_one_transaction
row S3-4.2a "one that cannot be written fails the others" src/store/group_commit.rs \
  's/^    for mut change in changes {/    for mut change in changes.into_iter().take(0) {/' \
  lib s3_4_2a_events_that_cannot_be_written_do_not_fail_those_of_other_runs
row S3-4.2b "a kilobyte waits for half a second" src/jobs/log.rs \
  's/unwritten_bytes < WRITE_BYTES {/unwritten_bytes < WRITE_BYTES * 9 {/' \
  lib s3_4_2b_events_wait_for_half_a_second_or_a_kilobyte
row S3-4.2b "events are written one by one" src/jobs/log.rs \
  's/^        sleep(until_step(System.unix_ms())).await;/        let _ = until_step(System.unix_ms());/' \
  lib s3_4_2b_events_wait_for_half_a_second_or_a_kilobyte
row S3-4.2b "the terminal event is written before the response" src/jobs/log.rs \
  's/if events.is_ending || events.written/if events.written/' \
  lib s3_4_2b_the_last_events_are_written_with_the_response
row S3-4.2b "the last events are not written" src/jobs/log.rs \
  's/webhooks, response, batch, false).await {/webhooks, response, EventBatch::default(), false).await {/' \
  lib s3_4_2b_the_last_events_are_written_with_the_response
row S3-0d "an event is deleted before it is delivered" src/jobs/webhooks/mod.rs \
  's/let sent = attempt::send(/shared.store.end_delivery(name, delivery.response).await?; let sent = attempt::send(/' \
  it "S3-0d an event is told again after the program was killed"
row S3-0d "the end of a response is not told" src/store/jobs.rs \
  's/deliveries::create(connection, number, &job.webhooks, job.now_ms/deliveries::create(connection, number, \&[], job.now_ms/' \
  it "S3-0d each end of a background response is told in a signed event"
row S3-0d "the signature leaves out the time" src/jobs/webhooks/message.rs \
  's/format!("{id}.{timestamp}.{body}")/format!("{id}..{body}")/' \
  it "S3-0d each end of a background response is told in a signed event"
row S3-0d "a redirect of a webhook counts as taken" src/jobs/webhooks/attempt.rs \
  's/if status.is_success() {/if status.as_u16() < 400 {/' \
  lib s3_0d_a_delivery_is_tried_again_under_the_same_id_until_it_is_taken
row S3-0d "a pause that a webhook asks for is not kept" src/jobs/webhooks/pauses.rs \
  's/Some(pause.max(asked.unwrap_or_default()))/Some(pause)/' \
  lib s3_0d_a_delivery_is_tried_again_under_the_same_id_until_it_is_taken
row S3-0d "a webhook that is gone gets events" src/jobs/webhooks/mod.rs \
  's/if waiting == 0 || self.is_gone(config, webhook) {/if waiting == 0 {/' \
  lib s3_0d_a_webhook_that_is_gone_gets_nothing_until_the_configuration_is_read_again
row S3-0d "any number of events wait for a webhook" src/store/deliveries.rs \
  's/if waiting(connection, webhook)? >= MAX_WAITING {/if false {/' \
  lib s3_0d_the_deliveries_that_wait_for_a_webhook_are_limited
row S38 "a file that was found has webhooks" src/config/load/trust.rs \
  's/filter(|(name, _)| \*name != "providers")/filter(|(name, _)| !matches!(name.as_str(), "providers" | "webhooks"))/' \
  lib a_file_that_was_found_runs_nothing_and_moves_no_key
row S3-7.2c "any number of runs go on" src/jobs/queue.rs \
  's/if runs.running >= most |/if runs.running >= most + 99 |/' it \
  "S3-7.2c twenty run at the same time and the rest wait in order"
row S3-7.2b "a run may take any time" src/turn/respond.rs \
  's/^    ctx.deadline = Instant::now() + config.jobs.timeout;/    let _ = config.jobs.timeout;/' it \
  "S3-7.2b a run ends at its limit"
row "S0-3i S0-1c" "a response is acknowledged and not stored" src/responses/commit.rs \
  's/^        store.put_response(NewResponse { spent, ..record }).await/        { let _ = (store, spent, record); Ok(()) }/' it \
  "S0-3i what was acknowledged reads back, also after a kill"
row "S1-3b S0-1c" "the stored history is not sent" src/turn/received.rs \
  's/^ *.with_history(history.items.clone())$//' it \
  "S1-3b a call and its result are in the next request with their ids"
row S0-1a "a turn does not reach its conversation" src/responses/commit.rs \
  's/^            Some(continues) => origin(continues),/            Some(_) => StoredOrigin::Nothing,/' it \
  "S0-1a S0-5a a conversation has all items of its turns in their order"
row S0-2d "any history may be forged" adapters/src/responses/request.rs \
  's/let dropped = limits::limit_forged_history(&mut turn.items);/let dropped = 0;/' it \
  "S0-2d a forged history is limited beside a conversation"
row S0-2a "a message of a chat has no limit" src/config/storage.rs \
  's/HistoryKind::Items | HistoryKind::Text => CHAT_MESSAGE_CHARS,/HistoryKind::Items | HistoryKind::Text => 0,/' it \
  "S0-2a a message of a chat is shortened at its limit"
row S1-2a "the whole history is sent in every mode" src/responses/history.rs \
  's/settings.selection()/adapters::stored_history::HistoryMode::Full/' it \
  "S1-2a mode items sends fifty items at most"
row S0-Ub "every id is looked up" adapters/src/responses/request/continuation.rs \
  's/^    if !is_resource_id(&id, "resp_") {/    if id.is_empty() {/' \
  adapters an_invalid_request_names_the_parameter
row S0-Uc "the responses of all owners are listed" src/store/response_list.rs \
  's/WHERE owner = ?1 AND number > ?2/WHERE ?1 = ?1 AND number > ?2/' \
  lib s0_uc_the_pages_of_responses_are_all_of_them_once
row S0-Uc "a page of responses has any size" src/store/page.rs \
  's/ || self.bytes >= self.max_bytes {/ {/' \
  lib s0_uc_a_page_of_responses_ends_where_it_is_large
row S0-Uc "a page of responses begins anywhere" src/app/stored/responses.rs \
  's/let listed = listed.ok_or_else(items::unknown_after)?;/let listed = listed.unwrap_or_default();/' it \
  "S0-Uc a client lists its stored responses in pages"
row S0-Ud "a template is not filled in" src/turn/received.rs \
  's/ && !config.prompts.is_empty() {/ \&\& false {/' it \
  "S0-Ud a prompt is filled in on every way to a turn"
row S0-Ud "a response does not repeat its prompt" adapters/src/responses/response_object.rs \
  's/if let Some(prompt) = &self.prompt {/if let Some(prompt) = self.prompt.as_ref().filter(|it| it.is_empty()) {/' it \
  "S0-Ud a prompt is filled in on every way to a turn"
row S0-Ud "a replay knows no refused prompt" src/diagnostics/replay/mod.rs \
  's/turn.fault.clone().filter(is_about_prompt);/None;/' it \
  "S0-Ud a turn replays without the templates of its prompt"
row S0-Ud "a template counts more than its request" adapters/src/responses/prompt_templates.rs \
  's/if body.present(name).is_none() {/if !name.is_empty() {/' \
  adapters s0_ud_a_template_takes_the_place_of_the_prompt
row S0-Ud "a request leaves out variables" adapters/src/responses/prompt_templates.rs \
  's/let (message, code) = if !missing.is_empty() {/let (message, code) = if missing.len() > 99 {/' \
  adapters s0_ud_what_cannot_be_filled_in_is_refused_with_what_there_is
row S0-Ud "any file is a template" src/config/load/prompts.rs \
  's/if !is_prompt_id(&id) || !path.is_dir() {/if !path.is_dir() {/' \
  lib s0_ud_what_is_no_template_is_told
row S0-Ud "a new version is not noticed" src/config/load/prompts.rs \
  's/Entry::Folder(path) => self.config.source_files.push(path),/Entry::Folder(_) => {}/' \
  lib s0_ud_a_new_version_of_a_prompt_is_noticed
row S0-Ue "a route is missing in the OpenAPI document" src/app/openapi.json \
  's|^    "/healthz": {|    "/health": {|' it \
  "S0-Ue the OpenAPI document has every route and no other"
row S0-Ue "a parameter of the OpenAPI document is not read" src/app/stored/responses.rs \
  's/parse_some(query.as_deref(), &\["status"\])?;/parse_some(query.as_deref(), \&["state"])?;/' it \
  "S0-Ue each parameter of the OpenAPI document is read"
row S0-Ue "a documented status does not occur" src/app/artifacts/error.rs \
  's/StatusCode::RANGE_NOT_SATISFIABLE,/StatusCode::BAD_REQUEST,/' it \
  "S0-Ue each status of the OpenAPI document occurs"
row S0-Uf "a table of the docs is old" docs/requests.md \
  's/^| `max_tool_calls`, `safety_identifier`, `user` | echoed |/| `max_tool_calls`, `safety_identifier` | echoed |/' \
  adapters s0_uf_the_tables_of_the_docs_are_those_of_the_code
row S0-Uf "a parameter is read that no table has" adapters/src/responses/request_body.rs \
  's/^    moderation,/    moderation, verbosity,/' \
  adapters s0_uf_every_parameter_that_is_read_is_in_the_table_and_no_other
row S0-Uf "a parameter is noted that means nothing" adapters/src/responses/request_body.rs \
  's/ \&\& !is_ignored(other) {/ {/' \
  adapters s0_uf_a_parameter_is_left_out_as_the_table_says
row S1-5a "results are sent without their calls" adapters/src/stored_history/select.rs \
  's/^            first = first.max(result + 1);/            let _ = result;/' \
  adapters s1_5a_no_cut_is_between_a_call_and_its_result
row S0-4a "lines have no author" adapters/src/stored_history/select.rs \
  's/^            "user" => "User",/            "user" => "",/' \
  adapters s0_2b_text_has_the_last_twenty_messages_with_their_roles
row S0-2c "a text has no limit" adapters/src/stored_history/select.rs \
  's/^    let mut left = max_chars;/    let mut left = usize::MAX;/' \
  adapters s0_2b_text_has_the_last_twenty_messages_with_their_roles
row S0-2b "the whole history is sent as text" adapters/src/stored_history/select.rs \
  's/messages.take(max_messages)/messages.take(max_messages + 99)/' \
  it "S0-2b S0-6a mode text sends the last twenty messages"
row S3-4.1b "pieces wait for the next one" src/turn/engine/read_timer.rs \
  's/^            if self.sleep.deadline() > at {/            if false {/' it \
  "S3-4.1b pieces that wait are sent although nothing follows"
row S3-4.1b "pieces are sent once" src/turn/engine/read_timer.rs \
  's/let next = next.min(self.flush_at.unwrap_or(next));/let _ = self.flush_at;/' it \
  "S3-4.1b pieces that wait are sent although nothing follows"
row S3-4.1c "any number of pieces are joined" adapters/src/coalescer.rs \
  's/^const MAX_PIECES: usize = 10;/const MAX_PIECES: usize = 1000;/' \
  adapters s3_4_1c_ten_pieces_are_one_event
row S3-4.1d "what waits comes after what follows" adapters/src/coalescer.rs \
  's/is_some_and(|it| it.place != place)/is_some_and(|it| it.place != place \&\& it.pieces > 9)/' \
  adapters s3_4_1d_pieces_of_another_text_and_other_events_come_after_what_waits
row S1-4a "a thread is trimmed to its own responses" src/store/threads.rs \
  's/let needed = responses.max(children);/let needed = responses.max(children.filter(|_| false));/' \
  lib s1_4a_whatever_is_deleted_the_rest_keeps_its_history_and_nothing_else_stays
row S1-4a "the text of a history grows while it is read" src/store/threads.rs \
  '/contents::reserve(reading, &mut list, bytes + count.max(1) + 1)?;/d' \
  lib s1_4a_a_history_is_read_into_a_text_of_about_its_size
row S1-4a "a part of a history has room for the whole thread" src/store/threads.rs \
  's/number = ?1 AND begins = ?2 AND ends = ?3/number = ?1 AND (begins = ?2 OR ends = ?3)/' \
  lib s1_4a_a_history_is_read_into_a_text_of_about_its_size
row S1-4a "large items have no room in the text of a history" src/store/threads.rs \
  's/usize_of(own.1) + usize_of(large)/usize_of(own.1) + usize_of(large) * 0/' \
  lib s1_4a_a_history_is_read_into_a_text_of_about_its_size
row S1-4a "nothing is trimmed" src/store/threads.rs \
  's/if needed.is_none() {/if needed.is_none() \&\& false {/' \
  lib s1_4a_whatever_is_deleted_the_rest_keeps_its_history_and_nothing_else_stays
row S3-4.3a "responses are not found by their last use" src/store/005.sql \
  's/ON responses (accessed, number, bytes)/ON responses (created, number, bytes)/' \
  lib s3_4_3a_what_is_looked_for_is_found_by_indexes
row S3-4.3c "the newest responses are deleted first" src/store/expiry.rs \
  's/ORDER BY accessed, number LIMIT 1/ORDER BY accessed DESC, number LIMIT 1/' \
  lib beyond_the_limit_the_least_recently_used_go_first
row S3-4.3c "runs that go on are deleted" src/store/expiry.rs \
  "/SELECT_OLDEST_OF_OWNER:/,/;\$/s/AND state <> 'ended')/AND 0)/" \
  lib conversations_and_unfinished_runs_stay
row S2-Dd "nothing is deleted" src/store/sweep.rs \
  's/DELETE FROM refs WHERE accessed < ?1 AND NOT/DELETE FROM refs WHERE accessed < ?1 AND 0 AND NOT/' \
  lib an_artifact_is_deleted_thirty_days_after_its_last_access
row S2-Dd "others may read the files" src/store/data_dir.rs \
  's/set_mode(&self.file_beside(suffix), 0o600)/set_mode(\&self.file_beside(suffix), 0o644)/' \
  lib only_the_owner_can_read_the_files
row R8 "a long line is searched at once" src/artifacts/search.rs \
  's/start.saturating_add(query.window())/text.len().max(query.window())/' \
  lib r8_a_search_can_be_stopped_within_a_long_line
row R17 "every operation waits for a locked database" src/store/lock_patience.rs \
  's/self.is_locked.store(is_locked, Ordering::Relaxed);/self.is_locked.store(is_locked \&\& false, Ordering::Relaxed);/' \
  lib r17_one_operation_waits_for_a_locked_database
row S43 "a data directory that was there before stays open" src/store/data_dir.rs \
  's/.and_then(|()| restrict_if_owned(&self.path, 0o700))/.and_then(|()| restrict_if_owned(\&self.path, 0o777))/' \
  lib s43_modes_that_were_there_before_are_narrowed
row R19 "a store of a newer version is used" src/store/schema.rs \
  's/return Err(StoreError::Newer(version));/return Ok(());/' \
  lib r19_the_store_of_a_newer_version_is_left_alone
row R18 "the text after the first piece is missing" src/artifacts/opened.rs \
  's/^                if at >= bytes.end {/                if at > bytes.start {/' \
  lib r18_an_artifact_is_read_in_pieces_across_chunks_and_characters
row S2-De "every failure is reported" src/artifacts/disk.rs \
  's/&& !before.swap(true, Ordering::Relaxed)/\&\& !before.swap(false, Ordering::Relaxed)/' \
  lib a_failed_write_is_reported_once_and_replaced_by_memory
row S2-De "artifacts that cannot be written to disk are lost" src/artifacts/disk.rs \
  's/unwritten.artifacts, self.named/Vec::new(), self.named/' \
  lib a_failed_write_is_reported_once_and_replaced_by_memory
row S2-Df "the home of a server is not the folder of its test" tests/it/proxy.rs \
  's|.env("HOME", folder)|.env("HOME", "/dev/null/home")|' \
  it "S2-Df S2-Ta outputs are stored below the home of the test"
row S4-Df "a setup that is run again forgets which folders are trusted" src/codex/profile.rs \
  's/keep_others(&mut document, &earlier.parse().unwrap_or_default())/drop(earlier)/' \
  lib what_codex_has_added_stays_when_the_setup_is_run_again
row S4-Dg "the commands lack the file of the token" src/commands/invocation.rs \
  '/push_path(&mut text, "--token-file"/d' \
  it "S4-Dg the setup names commands that find the same server"
row S4-Dh "a dry run shows the new text of a file as if all of it were new" \
  src/commands/codex/preview.rs 's/Some(before) => difference(&before, after),/Some(_) => after.clone(),/' \
  it "S4-Dh a dry run shows what the setup then does"
row S4-Dh "what cannot be written is found when it is written" src/commands/codex.rs \
  '/^pub async fn setup/,/^}/s/change.check()?;//' it "S4-Dh a dry run fails where the setup would"
row S4-Dg "a catalog of somebody else is replaced" src/codex/catalog.rs \
  's/Some(earlier) if !is_ours(&earlier) && !is_named_by_us(home)? => /Some(_) if false => /' \
  it "S4-Dg only files of the setup are removed"
row S4-Di "labels have no colour" src/commands/mod.rs \
  's/style_labels(&escape_lines(text), style)/escape_lines(text)/' \
  it "S4-Di labels have a colour on a terminal alone"
row S4-Di "a pipe gets colours" src/commands/mod.rs \
  's/if anstream::AutoStream::choice(&io::stdout()) == .* {/if false {/' \
  it "S4-Di labels have a colour on a terminal alone"
row S4-Dl "the full name of a tool is not split" adapters/src/tools.rs \
  's/self.has_search.then(|| mcp_namespace(wire_name)).flatten()/None::<(\&str, \&str)>/' \
  adapters s4_dl_a_tool_that_a_search_would_find_has_its_namespace
row S4-Dl "Codex is never told to search for tools" src/app/models/mod.rs \
  's/tool_search: config.codex.tool_search/tool_search: false/' \
  lib s4_dl_codex_is_told_to_search_for_tools
row S4-Dm "the other name of a model has no entry" src/app/models/list.rs \
  's/^    listed.chain(others)/    listed.chain(others.take(0))/' \
  lib a_model_has_an_entry_for_each_of_its_names
row S4-Dk "progress is shown at once" src/commands/progress.rs \
  's/clock.wait(DELAY, &ended)/clock.wait(Duration::ZERO, \&ended)/' \
  lib s4_dk_what_ends_before_two_seconds_shows_nothing
row S4-Dk "progress is written to a pipe" src/commands/progress.rs \
  's/stream.is_terminal().then(/true.then(/' lib s4_dk_a_pipe_or_a_file_gets_no_line
row S4-Dj "long texts are not wrapped" src/log/table.rs 's/ && length > width {/ \&\& length > 999 {/' \
  it "S4-Dj the configuration is reported in lines that fit a terminal"
row S38 "a found file takes a secret for the token" src/config/load/trust.rs \
  's/if !of_table.is_some_and(|(_, allowed)| allowed.contains(&key.as_str())) {/if false {/' \
  lib a_file_that_was_found_runs_nothing_and_moves_no_key
row R37 "why a provider failed is forgotten" src/upstream/mod.rs \
  '/self.health.note_failure(fault);/d' \
  it "R37 the status says why a provider does not answer"
row S40 "names that a client chose keep the keys in them" src/secrets/redactor.rs \
  's/self.prefixes.is_none() || text.len() < self.shortest_prefix/self.prefixes.is_none() || !text.is_empty()/' \
  it "S40 canaries stay inside"
row S40 "character references of HTML are not read" src/secrets/redactor.rs \
  's/for escapes in \[Encoding::Json, Encoding::Html\]/for escapes in [Encoding::Json]/' \
  lib a_key_is_redacted_in_every_encoding
row S41 "heartbeats between attempts are not recorded" src/diagnostics/capture/recorder.rs \
  's/^                self.note_heartbeat(bytes);//' \
  it "S41 a heartbeat while outputs are stored"
row S41 "a background answer is replayed like one that a client waits for" src/turn/service.rs \
  's/run: identity.is_some().then(BackgroundRun::replayed),/run: None,/' it \
  "S41 a background response that failed is replayed with the same events"
row S42 "a status that announces another head is accepted" src/diagnostics/bundle/check.rs \
  's/(200..1000).contains/(100..1000).contains/' lib impossible_metadata_is_refused
row S2-Dg "a tool that reads artifacts is offered beside the client's" $encode/tools.rs \
  's/^    body.out.push(b.\[.);/    body.out.push(b"["[0]); body.out.extend_from_slice(br#"{"type":"function","function":{"name":"artifact_read"}},"#);/' \
  outputs a_request_gets_no_tools_that_its_client_did_not_send
row S2-Dh "the id of an artifact differs for each call" $plan/bound_outputs/render.rs \
  's/then(|| measure.as_ref().into()),/then(|| crate::plan::Artifact { id: format!("{}{call_id}", measure.id), ..measure.as_ref().into() }),/' \
  outputs an_artifact_has_the_id_of_its_content
row R8 "a client that left is not noticed behind unread bytes" src/serve/listen.rs \
  's/Poll::Pending => left.as_mut().poll(cx).map(Ok),/Poll::Pending => { let _ = \&mut left; Poll::Pending }/' \
  it "R8 a client that leaves is noticed whatever it has sent behind its request"
row R24 "a client may take nothing for ever" src/serve/client_stream.rs \
  's/ready!(timer.as_mut().poll(cx));/ready!({ let _ = timer; Poll::<()>::Pending });/' \
  it "R24 a client that takes no byte is dropped"
row R25 "everything is read after a refusal" src/serve/listen.rs \
  's/^const LINGER_BYTES: usize = 64 << 20;/const LINGER_BYTES: usize = 64 << 40;/' \
  it "R25 a body that goes on after its refusal is cut off"
row R7 "a turn may take for ever" src/turn/engine/reading.rs \
  's/^        self.check_deadline()?;/        let _ = Self::check_deadline;/' \
  it "R7 a turn that goes on for ever ends at turn_timeout"
row R8 "the preparation of a turn goes on when its client has left" src/turn/large_work.rs \
  's/is_some_and(ClientConnection::has_left)/is_some_and(|_| false)/' \
  lib r8_the_preparation_of_a_turn_ends_when_its_client_leaves
row R8 "a plan that was stopped goes on" $plan/bound_outputs/output_reader.rs \
  's/output::measure_until(text, stop)?/output::measure_until(text, \&StopFlag::default())?/' \
  adapters r8_a_plan_that_is_stopped_reads_no_further_output
row R44 "bundles are made for nobody" src/net/blocking.rs \
  's/^        self.0.raise(StopReason::ClientLeft);/        let _ = (\&self.0, StopReason::ClientLeft);/' \
  it "R44 a bundle for a client that left is not made"
row R44 "two work on recorded turns at once" src/diagnostics/capture/mod.rs \
  's/Semaphore::new(1)/Semaphore::new(2)/' \
  lib r44_work_on_recordings_has_one_place_and_a_share_of_the_memory
row R44 "copies of recorded turns do not count" src/diagnostics/capture/work.rs \
  's/^        self.memory.set(self.done.saturating_add(copies));/        let _ = copies;/' \
  lib r44_work_on_recordings_has_one_place_and_a_share_of_the_memory
row R44 "a replay that was stopped goes on" src/diagnostics/replay/mod.rs \
  's/^        if stop.is_raised() {/        if false {/' lib r44_a_replay_that_was_stopped_ends
row R44 "the end waits for every recording" src/diagnostics/capture/mod.rs \
  's/FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(3)/FINAL_FLUSH_TIMEOUT: Duration = Duration::from_mins(9)/' \
  lib r44_the_end_of_the_server_waits_three_seconds_for_recordings
row R15 "a second signal is ignored" src/commands/serve.rs \
  's/^        ending.cancel();/        drop(ending);/' \
  it "R15 a second SIGTERM or Ctrl-C does not wait for running turns"
row R15 "a second Ctrl-C is ignored" src/commands/serve.rs \
  '/drain.cancel();/,/stopping now/s/either_signal(.*).await;/terminate.recv().await;/' \
  it "R15 a second SIGTERM or Ctrl-C does not wait for running turns"
row R15 "the end waits for blocking threads" src/main.rs \
  's/^    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);/    let _ = SHUTDOWN_TIMEOUT; drop(runtime);/' \
  it "R15 a file that blocks its reader does not keep the server from ending"
row R8 "a search goes on when its client has left" src/artifacts/owner.rs \
  's/\&|| stop.is_raised())/\&|| { let _ = stop; false })/' \
  it "R8 the search of a client that left is stopped"
row "R8 R15" "whether work is wanted is looked at too rarely" src/turn/large_work.rs \
  's/CHECK_INTERVAL: Duration = Duration::from_millis(50)/CHECK_INTERVAL: Duration = Duration::from_mins(1)/' \
  lib r15_the_preparation_of_a_turn_ends_with_the_process
row R8 "the search for evidence is not stopped" $output/evidence/mod.rs \
  's/^        if self.block.is_stopped_at(start) {/        if self.block.is_stopped_at(start) \&\& start == usize::MAX {/' \
  adapters r8_a_search_for_evidence_that_is_stopped_reads_one_more_block
row R8 "an excerpt that was stopped is kept" $plan/bound_outputs/output_reader.rs \
  's/^        if stop.is_raised() {/        if false {/' \
  adapters r8_a_plan_that_is_stopped_reads_no_further_output
row R32 "the text of a search does not count" src/store/chunks.rs \
  's/^    reading.reserve(span.size)?;/    let _ = span.size;/' \
  lib r32_a_text_counts_while_it_is_searched
row R45 "a limit that is quoted from the request is believed" src/turn/failover.rs \
  's/if provider_error::quotes_limit(&fault.message, patch, &attempt.request.body) {/if provider_error::quotes_limit("", patch, \&attempt.request.body) {/' \
  it "the refusal quotes the request"
row R45 "a limit far below the listed one is believed" src/upstream/learned_quirks.rs \
  's/u64::from(tokens) >= listed \/ MIN_PART_OF_LISTED/u64::from(tokens) >= listed \/ (1000 * MIN_PART_OF_LISTED)/' \
  lib r45_a_limit_is_not_believed_far_below_the_listed_one
row R45 "a limit is kept for ever" src/upstream/learned_quirks.rs \
  's/is_limit(patch).then(|| Instant::now() + LIMIT_LIFETIME)/is_limit(patch).then(|| Instant::now() + 9000 * LIMIT_LIFETIME)/' \
  lib r45_a_limit_is_forgotten_after_an_hour
row R45 "a limit that a compaction learns is no warning" src/turn/compact/summary.rs \
  's/learn_patch(shared, config, &route, patch);/let _ = (config, learn_patch); shared.upstreams.learned_quirks().learn(\&route, patch);/' \
  it "R45 compaction: a limit that is learned in a compaction is a warning"
row R46 "a terminal gets every escape sequence" src/commands/mod.rs \
  's/^    if is_terminal {/    if is_terminal \&\& false {/' lib r46_only_a_pipe_gets_escape_sequences
row S2-Dc "a message that is no JSON is of the wrong media type" src/mcp/mod.rs \
  's/if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {/if response.status() == StatusCode::IM_A_TEAPOT {/' \
  it "MCP over HTTP offers neither streams nor sessions"
row R31 "long ids are remembered as they are" src/net/bounded_id.rs \
  's/^const MAX_BYTES: usize = 256;/const MAX_BYTES: usize = usize::MAX \/ 2;/' \
  lib r31_a_long_session_id_is_hashed
row R32 "page caches are not counted" src/store/page_caches.rs \
  's/^        bytes.min(WRITER_CACHE) + readers/        0 * bytes.min(WRITER_CACHE) + 0 * readers/' \
  lib r32_page_caches_are_limited_and_count_as_memory
row R32 "the cache of the writer has no limit" src/store/schema.rs \
  's/^    page_caches::limit(&connection, WRITER_CACHE)?;/    page_caches::limit(\&connection, 9 * WRITER_CACHE)?;/' \
  lib r32_page_caches_are_limited_and_count_as_memory
row R32 "memory has no limit" src/net/memory/mod.rs \
  's/^        if self.memory.fits(bytes - before) {/        if true {/' \
  it "R32 a body beyond the memory of the process is refused"
row R32 "the memory of bodies is not given back" src/turn/engine/reading.rs \
  's/^            self.memory.free_bodies();/            let _ = crate::turn::turn_memory::TurnMemory::free_bodies;/' \
  it "R32 the memory of a turn is counted until it is not needed any more"
row R32 "what a connection keeps of a turn does not count" src/turn/engine/reading.rs \
  's/self.stored.is_some() || self.connection.is_some();/self.stored.is_some();/' \
  it "R32 websocket: a body counts as long as its connection needs it"
row R36 "others can look into the folder of a run" src/commands/run/mod.rs \
  's/Permissions::from_mode(0o700)/Permissions::from_mode(0o755)/' \
  it "R36 Codex runs with a server that ends with it"
row R36 "every user can read the token" src/commands/run/mod.rs \
  's/^            Some(_) => CodexToken::Variable(TOKEN_VARIABLE),/            Some(ref token) => { let _ = TOKEN_VARIABLE; CodexToken::Written(token) }/' \
  it "R36 Codex runs with the server that runs already"
row R37 "a day has any number of models" src/store/usage.rs \
  's/models_of_day(&transaction, &key)? >= MAX_MODELS_A_DAY/models_of_day(\&transaction, \&key)? == u64::MAX/' \
  lib r37_the_rows_of_a_day_and_the_days_are_limited
row R37 "usage ends with the server" src/commands/serve/server.rs \
  's/^        app.usage.flush().await;/        let _ = app.usage;/' \
  it "R37 usage outlives the server"
row R40 "a request unshortened may fill the whole window" src/turn/prefix/recent_requests.rs \
  's/input.tokens <= window.max_input()/input.tokens <= window.tokens/' \
  it "R40 a turn that leaves no room for an answer unshortened says so"
row R40 "the bill unshortened has no more tokens" src/turn/prefix/unshortened.rs \
  's/            tokens: tokens + self.tokens(more),/            tokens,/' \
  it "R40 a turn shows both bills in its log line, the metrics and the status"
row R40 "impossible turns count as equal ones" src/turn/record.rs \
  's/^        Some(if !self.fits_unshortened() {/        Some(if self.price.is_none() {/' \
  it "R40 a turn that leaves no room for an answer unshortened says so"
row R41 "a response of another session is unknown" src/turn/session_memory.rs \
  's/            .or_else(|| others.map(|(_, session)| session).find_map(diagnose))/            .or_else(|| None.or(others.map(|(_, session)| session).find_map(|_| None)))/' \
  it "R41 each of the nine reasons for a cache miss is named"
row R41 "a change of verbosity is one of the effort" src/turn/prefix/fingerprint.rs \
  's/        CacheMissReason::VerbosityChanged,/        CacheMissReason::ReasoningEffortChanged,/' \
  it "R41 each of the nine reasons for a cache miss is named"
row R43 "an epoch is not paid" adapters/src/plan/bound_outputs/replay.rs \
  's/let is_paid = self.savings.pay_for(self.after_epoch(target));/let is_paid = true;/' \
  adapters r43_an_epoch_that_the_window_does_not_force_is_paid_from_the_savings
row R42 "lost turns are not counted" src/turn/session_memory.rs \
  's/lost >= MAX_LOST_TURNS/lost == u8::MAX/' \
  it "R42 a session that shortening makes dearer is sent whole, also after a restart"
row R42 "whole sessions end with the server" src/commands/serve/server.rs \
  's/            service.keep_whole_sessions(store).await;/            let _ = store;/' \
  it "R42 a session that shortening makes dearer is sent whole, also after a restart"
row R42 "a recorded turn does not know it" src/turn/shared.rs \
  's/            whole: self.whole_session(owner, session),/            whole: None,/' \
  it "R42 a recorded turn of such a session is replayed as it was"
row R42 "what was shortened becomes whole" adapters/src/plan/bound_outputs/mod.rs \
  's/            last.map_or(0, |position| position + 1)/            last.map_or(0, |position| position * 0)/' \
  adapters r42_what_was_sent_stays_and_only_the_window_shortens_more
row R42 "only the newest output of a history is known" adapters/src/plan/unshortened_from.rs \
  's/        for back in 0..longest.unwrap_or_default() {/        for back in 0..longest.unwrap_or_default().min(1) {/' \
  adapters r42_a_history_that_goes_back_keeps_what_was_sent
row R42 "an output is the same in another history" adapters/src/plan/bound_outputs/mod.rs \
  's/            let mark = OutputMark::of(item, before)?;/            let mark = OutputMark::of(item, before.and(None))?;/' \
  adapters r42_a_history_that_goes_back_keeps_what_was_sent
row R42 "a history that may be older is whole" adapters/src/plan/unshortened_from.rs \
  's/known.unwrap_or(if self.is_partial { marks.len() } else { 0 })/known.unwrap_or(0)/' \
  adapters r42_a_history_that_may_be_older_is_not_changed
row R42 "going back begins to count lost turns anew" src/turn/prefix/recent_requests.rs \
  's/        let mut latest = self.of_route(request).rev();/        let mut latest = self.newest_of_route(request).collect::<Vec<_>>().into_iter().rev();/' \
  lib r42_lost_turns_are_counted_by_history
row R42 "a turn of which nothing is known interrupts lost ones" src/turn/failover.rs \
  's/        let Some(unshortened) = forecast.unshortened_usage(usage) else {/        let unshortened = forecast.unshortened_usage(usage).unwrap_or(usage);\n        if self.whole.is_some() {/' \
  it "R42 a turn that would not have fitted unshortened does not interrupt lost ones, and going back changes nothing"
row R41 "only the newest response of a history is known" src/turn/prefix/recent_requests.rs \
  's/                other.history = Arc::clone(request);/                (other.history, other.response_id) = (Arc::clone(request), "".into());/' \
  lib r41_each_of_the_last_responses_is_compared_as_it_was
row R41 "prompts end with the server" src/commands/serve/server.rs \
  's/            service.keep_prompts(store);/            let _ = store;/' \
  it "R41 a response several turns back is compared, also after a restart"
row R41 "prompts of responses that are not stored are stored" src/turn/engine/round.rs \
  's/        if self.stored.is_some() {/        if true {/' \
  it "R41 a response several turns back is compared, also after a restart"
row R41 "each prompt is stored with all of its hashes" src/turn/prefix/recent_requests.rs \
  's/        let continues = ids.into_iter().next_back();/        let continues = ids.into_iter().next_back().filter(|id| id.is_empty());/' \
  lib r41_a_history_is_stored_once
row R41 "stored prompts have no limit" src/store/prompts.rs \
  's/^        limit_bytes(connection, MAX_BYTES)?;/        limit_bytes(connection, u64::MAX >> 1)?;/' \
  lib r41_stored_prompts_are_limited_and_swept
row R41 "reasoning that is left out is not listed" src/turn/engine/round.rs \
  's/        let removed = std::mem::take(&mut round.attempt.removed_reasoning);/        let removed = Vec::new();/' \
  it "R41 reasoning that a model does not get is listed"
row R70 "what is discovered wins over what is configured" registry/src/lookup.rs \
  's/        if model.window.is_some() {/        if false {/' it \
  "R70 what is configured wins over what is discovered"
row R70 "a discovered model is known only with its provider in front" registry/src/lookup.rs \
  's/        known.or_else(|| providers.find_map(discovered))/        known.or_else(|| providers.find_map(listed))/' it \
  "R70 a discovered model answers under its own name"
row R70 "a model has the window that it was made for" adapters/src/model_list/mod.rs \
  's/        model.window = self.given.or(model.window).or(limit);/        model.window = self.limit.or(self.given).or(limit);/' it \
  "R70 discovery: the models and windows of"
row R71 "the list of another address is used" registry/src/discovery.rs \
  's/        (known.base_url == provider.base_url).then(/        true.then(/' it \
  "R71 another address has other models"
row R71 "a list has any length" adapters/src/model_list/mod.rs \
  's/    Some(models.take(MAX_MODELS).collect())/    Some(models.collect())/' it \
  "R71 thousands of models are listed within the limits"
row R71 "a list is not asked for again when it is shown" src/upstream/discovery/keeper.rs \
  's/                state.next = now;/                state.next = now + REFRESH;/' it \
  "R71 models that change are noticed"
row R71 "models are forgotten at the first failure" src/upstream/discovery/keeper.rs \
  's/                    if state.arrived.is_some_and(is_old) {/                    if state.arrived.is_some() {/' it \
  "R71 models that change are noticed"
row R71 "a list is asked for without the key" src/upstream/discovery/mod.rs \
  's/            headers.insert(name, value);/            drop((name, value));/' it \
  "R71 a list gets the key, and its answer does not leave us"
row R72 "what was measured is not in the file" src/commands/doctor/file.rs \
  's/        file.insert("quirks".to_owned(), Value::Table(changed));/        drop(changed);/' it \
  "R72 doctor: a tool loop runs on the file that it writes"
row R72 "an unknown server is asked in one wire only" src/commands/doctor/mod.rs \
  's/        } else if measured.is_wrong_wire \&\& !places {/        } else if false {/' it \
  "R72 doctor: the wire of an unknown server is found"
row R72 "no history of another model is tried" src/commands/doctor/prompts.rs \
  's/    foreign.into_iter().chain(history).chain(more).collect()/    history.into_iter().chain(more).collect()/' it \
  "R72 doctor: a configured provider gets advice, and no file"
row R72 "a key is tried in one header only" src/commands/doctor/target.rs \
  's/            if !is_unauthorized(&answered) {/            if false {/' it \
  "R72 doctor: the header of a key is found"
row R72 "a local server is asked for its list only" src/commands/doctor/target.rs \
  's/    if is_unknown \&\& is_local {/    if false {/' it \
  "R72 doctor: the window of a local server is found"
row R74 "what answers show is not looked at" src/commands/doctor/measure.rs \
  's/        wire::observe_answer(&mut dialect.quirks, &self.seen().body);//' it \
  "R74 doctor: a server of our own making is understood"
row R74 "parameters are not measured" src/commands/doctor/measure.rs \
  's/            self.check_parameters().await;//' it \
  "R74 doctor: quirks that are drawn from all provider files are found"
row R74 "it is not measured how reasoning is steered" src/commands/doctor/measure.rs \
  's/            self.check_reasoning_control().await;//' it \
  "R74 doctor: quirks that are drawn from all provider files are found"
row R74 "fields that are taken are not kept" src/commands/doctor/extras.rs \
  's/        self.keep_services(&services);//' it \
  "R74 doctor: quirks that are drawn from all provider files are found"
row R75 "a model is asked as often as it refuses" src/commands/doctor/watch.rs \
  's/self.used.requests >= MAX_REQUESTS/false/' \
  lib r75_a_model_is_asked_twelve_times_at_most
row R75 "tokens are not limited" src/commands/doctor/watch.rs \
  's/(tokens > MAX_TOKENS \&\& !self.has_no_token_limit)/(tokens > u64::MAX)/' \
  lib r75_a_model_is_asked_for_twenty_thousand_tokens_at_most
row R75 "each wire has a minute of its own" src/commands/doctor/measure.rs \
  's/timeout_at(used.deadline, running)/timeout(MAX_TIME, running)/' \
  lib r75_a_model_is_measured_for_a_minute_in_all_wires_together
row R75 "an answer may go on for ever" src/commands/doctor/measure.rs \
  's/        if estimated_tokens(said) > allowed || read > MAX_BODY {/        if estimated_tokens(said) > u64::from(u32::MAX) + allowed {/' \
  lib r75_an_endless_answer_is_stopped
row R75 "a prompt that does not fit is sent unasked" src/commands/doctor/measure.rs \
  's/            if with_overflow {/            if with_overflow || true {/' \
  lib r75_limits_are_measured_with_refusals_that_cost_nothing
row R73 "a failed check is no failure" src/commands/doctor/mod.rs \
  's/    Ok(if has_failed { EXIT_FAILED } else { EXIT_OK })/    Ok(if has_failed \&\& EXIT_FAILED > 1 { EXIT_FAILED } else { EXIT_OK })/' it \
  "R73 doctor: what fails is told with its remedy"
row R23 "an answer ends before it began when the clock is set back" $assembler/end.rs \
  's/Some(now.max(response.created_at))/Some(now)/' \
  lib r23_an_answer_does_not_end_before_it_began_when_the_clock_is_set_back
row S32 "a form without a body is taken for no form" src/serve/routes.rs \
  's/    !headers.contains_key(CONTENT_TYPE)/    true/' \
  it "S32 posts that need no preflight are refused"
row S3-0b "a response that is deleted leaves its events" src/app/stored/responses.rs \
  's/        jobs.forget(&owner, &id);/        let _ = jobs;/' \
  it "a run that is deleted is gone with its events"
row R13 "a read sees half of what is written meanwhile" src/store/readers.rs \
  's/    let result = read(&transaction)?;/    transaction.execute_batch("COMMIT")?; let result = read(\&transaction)?; transaction.execute_batch("BEGIN")?;/' \
  lib what_is_written_meanwhile_is_not_seen_in_part
row S31 "a port may have a sign" src/serve/guard.rs \
  's/port.bytes().all(|byte| byte.is_ascii_digit())/port.bytes().all(|byte| byte != b" "[0])/' \
  lib hosts
row R30 "a line feed after a carriage return ends a second line in the next read" adapters/src/sse.rs \
  's/rest = rest.strip_prefix(b"\\n").unwrap_or(rest);/let _ = rest;/' \
  corpora r30_server_sent_events
row R30 "a mask begins again in each read" src/serve/websocket/reader.rs \
  's/mask.rotate_left(at % 4);/mask.rotate_left(at - at);/' \
  corpora r30_websocket_frames
row R61 "a server that has WebSockets switched off serves them" src/app/websocket/mod.rs \
  's/if !config.server.websocket {/if false {/' it \
  "R61 websocket: switched off, a handshake gets 426"
row R61 "a connection goes on without its token" src/app/websocket/mod.rs \
  's/config.admits(&request.owner, request.by)/config.admits(\&request.owner, request.by) || true/' it \
  "R61 websocket: a connection ends with the token that opened it"
row R60 "Codex learns of a forgotten response in a stream" src/turn/received.rs \
  's/ && !is_forgotten;/ \&\& (!is_forgotten || true);/' it \
  "R60 websocket: Codex gets faults as failed responses"
row R60 "an error message has no code" src/turn/sink.rs \
  's/let body = fault.message_body();/let body = fault.body();/' it \
  "R60 websocket: an error leaves the connection as it is"
row R62 "a response that is not stored cannot be continued" src/turn/engine/answer.rs \
  's/^                turn.ended(self.assembler.response());/                drop(turn);/' it \
  "R62 websocket: a response that is not stored goes on from its connection"
row R62 "what a failed turn continued is kept" src/responses/connection.rs \
  's/^        kept.responses.retain(|(kept, _)| kept != id);/        let _ = id;/' it \
  "R62 websocket: what a failed turn continued is forgotten"
row R62 "the output of a call that nobody made is accepted" src/turn/prepare.rs \
  's/^    if own_results.is_empty() ||/    if true ||/' it \
  "R62 websocket: the output of a call that nobody made is refused"
row R62 "a connection keeps ten times as many responses" src/responses/connection.rs \
  's/^const MAX_RESPONSES: usize = 64;/const MAX_RESPONSES: usize = 640;/' it \
  "R62 websocket: the oldest responses are forgotten beyond a number"
row R62 "a connection keeps what there is no memory for" src/responses/connection.rs \
  's/self.memory.used() > self.memory.limit()/false/' lib \
  "kept_responses_are_limited_by_number_bytes_and_the_budget"
row R62 "a warm-up asks a provider" src/turn/message.rs \
  's/^    if !event.generate && /    if false \&\& /' it \
  "R62 websocket: a warm-up asks no provider, and is continued"
row R63 "seventeen turns run at once" src/app/websocket/lanes.rs \
  's/^const MAX_RUNNING: usize = 16;/const MAX_RUNNING: usize = 17;/' it \
  "R63 websocket: sixteen lanes run at once, and others wait"
row R63 "the turns of different lanes run one after another" src/app/websocket/lanes.rs \
  's/^const MAX_RUNNING: usize = 16;/const MAX_RUNNING: usize = 1;/' it \
  "R63 websocket: turns of different lanes run at the same time"
row R63 "a connection has any number of lanes" src/app/websocket/lanes.rs \
  's/named.count() >= MAX_NAMED/named.count() > MAX_NAMED/' it \
  "R63 websocket: a connection has 32 lanes with names"
row R64 "reserved bits are ignored" src/serve/websocket/reader.rs \
  's/if first & 0x70 != 0 || !is_masked {/if !is_masked {/' it \
  "R64 websocket: a compressed frame ends its connection although it was offered"
row R60 "compression is agreed to" src/serve/websocket/handshake.rs \
  's/    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));/&headers.insert(http::header::SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static("permessage-deflate"));/' it \
  "R60 websocket: a client that offers compression gets none"
row R64 "a message of any size is read" src/serve/websocket/reader.rs \
  's/let length = length.filter(|length| \*length <= room);/let _ = room;/' it \
  "R64 websocket: a message beyond the limit of bodies ends its connection"
row R64 "a message does not count while it arrives" src/serve/websocket/reader.rs \
  's/let counted = message.memory.request(with_copies).await;/let counted = message.memory.request(0).await;/' it \
  "R64 websocket: a message counts in the memory while it arrives"
row R64 "a flood of control frames goes on" src/serve/websocket/mod.rs \
  's/if self.control_frames > CONTROL_FRAMES {/if false {/' it \
  "R64 websocket: a flood of control frames ends its connection"
row R64 "a client that answers no ping stays" src/serve/websocket/mod.rs \
  's/if silent >= self.ping_interval \* UNANSWERED_PINGS {/if false {/' it \
  "R64 websocket: a silent client gets pings and then counts as gone"
row R65 "turns go on although their client takes nothing" src/app/websocket/mod.rs \
  's/^        if !is_flushed {/        if false \&\& !is_flushed {/' it \
  "R65 websocket: a slow reader slows the upstream down"
row R66 "a shutdown is not told to WebSockets" src/app/websocket/mod.rs \
  's/if self.drain.as_mut().poll(cx).is_ready() {/if false {/' it \
  "R66 websocket: a shutdown ends idle connections with a code"
row R66 "a WebSocket lasts for ever" src/app/websocket/mod.rs \
  's/if self.expiry.as_mut().poll(cx).is_ready() {/if false {/' it \
  "R66 websocket: a connection ends when it has lasted as long as it may"
}

mutants() {
mutant "plan: an empty message is kept" "$plan/mod.rs" \
  's/ItemRole::Text if empty::is_empty_message(item) =>/ItemRole::Text if false \&\& empty::is_empty_message(item) =>/' strict-unknown \
  'plan: step [0-9]+: '
mutant "encoder: another name of a parameter" adapters/src/body_writer.rs \
  's/("temperature", temperature, true)/("temperatur", temperature, true)/' lessons 'attempt [0-9]+ request: temperature: '
mutant "encoder: a parameter is lost" "$encode/tools.rs" \
  's/quirks.parallel_tool_calls);/false);/' lessons 'attempt [0-9]+ request: parallel_tool_calls: '
mutant "encoder: another limit" adapters/src/output_limit.rs \
  's/let limit = self.tokens.min(model_limit).min(room);/let limit = self.tokens.min(model_limit).min(room) - 1;/' \
  lessons 'attempt [0-9]+ request: max_tokens: '
mutant "assembler: another phase" "$assembler/order.rs" \
  's/"final_answer"/"final"/' strict-unknown \
  'event [0-9]+ response\.output_item\.done: item\.phase: "final_answer" -> "final"'
mutant "assembler: another event" "$assembler/text_part.rs" \
  's/"response.output_text.delta"/"response.text.delta"/' broken \
  'event [0-9]+ response\.output_text\.delta: response\.output_text\.delta '
}

# Bash reads a block as a whole, so the script may be edited while it runs.
{
  if [ -n "$check" ]; then
    pass=check
    rows
    mutants
    [ $failed -ne 0 ] || echo "$checked changes apply, and their tests exist"
    exit $failed
  fi

  for pass in green red; do rows; done
  [ -z "$only" ] || exit $failed

  rm -rf "$CORPUS_DIR"
  cargo test --quiet --test it -- corpus
  bundles=("$CORPUS_DIR"/*.bundle)
  [ -f "${bundles[0]}" ] || { echo "the tests wrote no bundles"; exit 1; }
  for bundle in "${bundles[@]}"; do
    replay "$bundle" > /dev/null || { echo "$bundle differs without a change"; exit 1; }
  done
  echo "${#bundles[@]} bundles are equal without a change"
  mutants
  exit $failed
}
