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
row R34 "a prompt may cost any number of requests" src/turn/request_budget.rs \
  's/MAX_FAILED_REQUESTS: u32 = 8;/MAX_FAILED_REQUESTS: u32 = 80;/' it \
  "R34 a prompt of Codex costs a failing provider eight requests"
row R34 "an answer does not end the count" src/turn/engine/round.rs \
  's/if failed > 0 {/if failed > 90 {/' it \
  "R34 an answer or another prompt makes room for new requests"
row R35 "an error has only the words of the provider" src/upstream/blame.rs \
  's/(Some(status), _) => fault.message = self.reply(fault, status),/(Some(_), _) => {}/' it \
  "R35 an error says who, where, why and what to do"
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
  's/^        .connect_timeout(provider.timeouts.connect)$//' lib \
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
  's/^            if !named.contains(id) {/            if named.len() < usize::MAX {/' \
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
  's/^        let middle = self.render(&units, between) + &paths;/        let middle = self.render(\&[], between) + \&paths;/' \
  adapters a_command_excerpt_shows_errors_and_paths_of_the_middle
row S2-Bh "words are rare in the text, not in their place" $output/evidence/model.rs \
  's/^                    Some(bits) => bits + alone \/ 4,/                    Some(_) => alone,/' \
  adapters one_odd_value_is_shown_where_values_are_alike
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
  adapters what_the_call_or_the_user_asked_for_is_shown
row S2-Vh "a result is shown without what it is about" $excerpt/body.rs \
  's/OutputKind::Json | OutputKind::WebOrSearch => (2, 1),/OutputKind::Json => (2, 1),/' \
  adapters an_odd_search_result_is_shown_with_its_title_and_address
row S2-Bm "a file has the limit of other outputs" $plan/bound_outputs/limits.rs \
  's/let share = window.saturating_mul(8) \/ 100;/let share = window \/ 100;/' \
  adapters a_file_that_is_read_stays_whole_where_other_outputs_do_not
row S2-Bm "instructions become excerpts" $plan/bound_outputs/origin.rs \
  's/^    "AGENTS.md",/    "AGENTS.mdx",/' \
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
  's/is_output.then_some(OutputShape::Json)/is_output.then_some(OutputShape::Parts)/' \
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
  's/connection.execute_batch("VACUUM")?;/return Ok(true);/' \
  lib a_purge_leaves_no_row_and_no_text_in_any_file
row R50 "others may read a backup" src/store/inspection.rs \
  's/^        .mode(0o600)/        .mode(0o644)/' \
  lib a_backup_is_a_private_file_with_everything_while_a_server_writes
row R50 "what an import need not have stays" src/store/transfer.rs \
  's/threads::trim(self.connection, thread)?;/let _ = thread;/' \
  lib what_exists_is_skipped_and_leaves_nothing_twice
row R51 "the end of a piece is lost" src/commands/jobs.rs \
  's/self.line = line.to_vec();/self.line.clear();/' \
  lib the_text_is_found_however_the_stream_is_cut
row S2-Dd "the artifacts of a stored session are swept" src/store/sweep.rs \
  's/"(EXISTS (SELECT 1 FROM threads/"(0 AND EXISTS (SELECT 1 FROM threads/' \
  lib s2_dd_the_artifacts_of_a_stored_session_live_as_long_as_it
row S1-4a "a thread is trimmed to its own responses" src/store/threads.rs \
  's/let needed = responses.max(children);/let needed = responses.max(children.filter(|_| false));/' \
  lib s1_4a_whatever_is_deleted_the_rest_keeps_its_history_and_nothing_else_stays
row S1-4a "nothing is trimmed" src/store/threads.rs \
  's/if needed.is_none() {/if needed.is_none() \&\& false {/' \
  lib s1_4a_whatever_is_deleted_the_rest_keeps_its_history_and_nothing_else_stays
row S3-4.3a "responses are not found by their last use" src/store/005.sql \
  's/ON responses (accessed, number, bytes)/ON responses (created, number, bytes)/' \
  lib s3_4_3a_what_is_looked_for_is_found_by_indexes
row S3-4.3c "the newest responses are deleted first" src/store/expiry.rs \
  's/ORDER BY accessed, number LIMIT/ORDER BY accessed DESC, number LIMIT/' \
  lib beyond_the_size_the_ones_unused_for_the_longest_time_go_first
row S3-4.3c "runs that go on are deleted" src/store/expiry.rs \
  "s/AND state <> 'ended')/AND 0)/" \
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
row S40 "names that a client chose keep the keys in them" src/secrets/redactor.rs \
  's/self.prefixes.is_none() || text.len() < self.shortest_prefix/self.prefixes.is_none() || !text.is_empty()/' \
  it "S40 canaries stay inside"
row S40 "character references of HTML are not read" src/secrets/redactor.rs \
  's/for escapes in \[Encoding::Json, Encoding::Html\]/for escapes in [Encoding::Json]/' \
  lib a_key_is_redacted_in_every_encoding
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
  's/^                    self.check_deadline()?;/                    let _ = Self::check_deadline;/' \
  it "R7 a turn that goes on for ever ends at turn_timeout"
row R8 "the preparation of a turn goes on when its client has left" src/turn/large_work.rs \
  's/is_some_and(ClientConnection::has_left)/is_some_and(|_| false)/' \
  lib r8_the_preparation_of_a_turn_ends_when_its_client_leaves
row R8 "a plan that was stopped goes on" $plan/bound_outputs/output_reader.rs \
  's/output::measure_until(text, stop)?/output::measure_until(text, \&StopFlag::default())?/' \
  adapters r8_a_plan_that_is_stopped_reads_no_further_output
row R31 "long ids are remembered as they are" src/net/bounded_id.rs \
  's/^const MAX_BYTES: usize = 256;/const MAX_BYTES: usize = usize::MAX \/ 2;/' \
  lib r31_a_long_session_id_is_hashed
row R32 "memory has no limit" src/net/memory.rs \
  's/^        let fits = self.memory.used() <= self.memory.limit();/        let fits = true;/' \
  it "R32 a body beyond the memory of the process is refused"
row R32 "the memory of bodies is not given back" src/turn/engine/reading.rs \
  's/^                self.memory.free_bodies();/                let _ = crate::turn::turn_memory::TurnMemory::free_bodies;/' \
  it "R32 the memory of a turn is counted until it is not needed any more"
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
  's/^        usage.flush().await;/        let _ = usage;/' \
  it "R37 usage outlives the server"
row R40 "a request unshortened may fill the whole window" src/turn/prefix/recent_requests.rs \
  's/input.tokens <= window.max_input()/input.tokens <= window.tokens/' \
  it "R40 a turn that leaves no room for an answer unshortened says so"
row R40 "the bill unshortened has no more tokens" src/turn/prefix/unshortened.rs \
  's/            tokens: tokens + self.tokens(more),/            tokens,/' \
  it "R40 a turn shows both bills in its log line, the metrics and the status"
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
  's/session.lost_turns >= MAX_LOST_TURNS/session.lost_turns == u8::MAX/' \
  it "R42 a session that shortening makes dearer is sent whole, also after a restart"
row R42 "whole sessions end with the server" src/commands/serve/server.rs \
  's/            service.keep_whole_sessions(store).await;/            let _ = store;/' \
  it "R42 a session that shortening makes dearer is sent whole, also after a restart"
row R42 "a recorded turn does not know it" src/turn/shared.rs \
  's/            whole: self.whole_session(owner, session),/            whole: None,/' \
  it "R42 a recorded turn of such a session is replayed as it was"
row R42 "what was shortened becomes whole" adapters/src/plan/bound_outputs/mod.rs \
  's/        last.map_or(0, |last| last + 1)/        last.map_or(0, |last| last * 0)/' \
  adapters r42_what_was_sent_stays_and_only_the_window_shortens_more
row R41 "reasoning that is left out is not listed" src/turn/engine/round.rs \
  's/        let removed = std::mem::take(&mut round.attempt.removed_reasoning);/        let removed = Vec::new();/' \
  it "R41 reasoning that a model does not get is listed"
row R23 "an answer ends before it began when the clock is set back" $assembler/end.rs \
  's/Some(now.max(response.created_at))/Some(now)/' \
  lib r23_an_answer_does_not_end_before_it_began_when_the_clock_is_set_back
row S31 "a port may have a sign" src/serve/guard.rs \
  's/port.bytes().all(|byte| byte.is_ascii_digit())/port.bytes().all(|byte| byte != b" "[0])/' \
  lib hosts
row R30 "a line feed after a carriage return ends a second line in the next read" adapters/src/sse.rs \
  's/rest = rest.strip_prefix(b"\\n").unwrap_or(rest);/let _ = rest;/' \
  corpora r30_server_sent_events
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
