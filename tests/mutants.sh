#!/usr/bin/env bash
# Proves that the tests notice when a promise of security or durability is broken. Each row below
# changes one line of the program so that a promise is lost; then the named test must fail. Every
# change needs a build of its own, some minutes in all, so CI only runs the check of the rows.
# tests/mutants-of-change.sh does the same for the lines of a change, without rows.
#
#   tests/mutants.sh [-r SUBJECTS] [FOLDER]
#   tests/mutants.sh --check
#
#   -r SUBJECTS  only the rows whose subject, such as owners or memory, matches this regular expression
#   FOLDER       the folder for the clone and the builds, which is kept; temporary if left out
#   --check      builds nothing: checks in the working tree that every change still applies to exactly
#                one line and that every named test exists
#
# The changes are made to the last commit, in a clean clone. A row is for a promise about what a user
# can lose or others can see; for all other code the tests themselves are enough.
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
  export CARGO_TARGET_DIR="$work/target"
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

# has_test SUITE TEST: whether the sources of the suite define the test
has_test() {
  case $1 in
    properties) grep --quiet --word-regexp "fn $2" adapters/tests/stream_properties.rs ;;
    hostile) grep --quiet --word-regexp "fn $2" adapters/tests/hostile_*.rs ;;
    lib) grep --quiet --recursive --word-regexp "fn $2" src ;;
    it) grep --quiet --recursive --word-regexp "fn $2" tests/it ;;
    *) return 1 ;;
  esac
}

# run_test SUITE TEST: runs one test
run_test() {
  case $1 in
    properties) cargo test --quiet -p responses-translate --test stream_properties -- --exact "$2" ;;
    hostile) cargo test --quiet -p responses-translate --test 'hostile_*' -- --exact "$2" ;;
    lib) cargo test --quiet -p respondent --lib -- "$2" ;;
    it) cargo test --quiet -p respondent --test it -- "$2" ;;
  esac > "$work/output" 2>&1
}

# row SUBJECT BEHAVIOUR FILE SCRIPT SUITE TEST: BEHAVIOUR says what is wrong after the change. The test
# must pass without the change (the pass "green") and fail with it (the pass "red").
row() {
  local subject=$1 behaviour=$2 file=$3 script=$4 suite=$5 test=$6
  [[ $subject =~ $only ]] || return 0
  case $pass in
    check)
      checked=$((checked + 1))
      change "$file" "$script" || true
      has_test "$suite" "$test" || fail "$subject: there is no test '$test' in $suite"
      ;;
    green)
      run_test "$suite" "$test" && grep --quiet ' [1-9][0-9]* passed' "$work/output" && return
      fail "$subject: '$test' does not pass without the change"
      tail -n 20 "$work/output"
      ;;
    red)
      change "$file" "$script" || return 0
      if ! run_test "$suite" "$test" && grep --quiet 'test result: FAILED' "$work/output"; then
        echo "red    $subject | $behaviour | $suite: $test"
      else
        fail "$subject: '$test' does not fail although $behaviour"
        tail -n 20 "$work/output"
      fi
      git checkout --quiet "$file"
      ;;
  esac
}

rows() {
row owners "recorded turns are shown to everybody" src/diagnostics/capture/query.rs \
  's/owner.is_operator() || \*listed.owner == \*owner.0/true/' it \
  two_clients_never_see_each_other_on_any_route
row owners "a client may use what is for the operator" src/net/owner.rs \
  's/&\*self.0 == LOCAL_OWNER/!self.0.is_empty()/' it \
  two_clients_never_see_each_other_on_any_route
row owners "the responses of every owner are found" src/store/responses.rs \
  's/WHERE id = ?1 AND owner = ?2";/WHERE id = ?1 AND ?2 = ?2";/' it \
  whatever_two_owners_do_neither_sees_an_id_or_a_text_of_the_other
row owners "the responses of all owners are listed" src/store/response_list.rs \
  's/WHERE owner = ?1 AND number > ?2/WHERE ?1 = ?1 AND number > ?2/' \
  lib the_pages_of_responses_are_all_of_them_once
row owners "of the tokens of two owners the last one counts" src/serve/guard.rs \
  's/if found.iter().any(|other| other.owner != caller.owner) {/if false {/' it \
  the_tokens_of_two_owners_in_one_request_are_refused_wherever_they_are

row owners "what one owner is refused is left out for all" src/upstream/learned_quirks.rs \
  's/ChangeScope::Owner | ChangeScope::Session => of.owner,/ChangeScope::Owner | ChangeScope::Session => "",/' it \
  what_one_client_is_refused_is_sent_for_another

row refusals "requests are changed after any refusal" adapters/src/experiments.rs \
  's/            _ => false,/            _ => true,/' it \
  a_refusal_that_is_not_about_the_request_is_told_at_once
row refusals "what a session leaves out is forgotten at a restart" src/turn/session_changes.rs \
  's/        if before.left_out != left_out$/        if before.left_out != before.left_out/' it \
  a_session_meets_a_refusal_once

row access "a form without a body is taken for no form" src/serve/routes.rs \
  's/    !headers.contains_key(CONTENT_TYPE)/    true/' \
  it posts_that_need_no_preflight_are_refused
row access "a stream outlives the token that asked for it" src/jobs/viewer.rs \
  's/if self.is_done || !self.is_admitted() {/if self.is_done || (self.is_done \&\& !self.is_admitted()) {/' it \
  the_events_of_a_job_end_with_the_token_that_asked_for_them
row access "a connection goes on without its token" src/app/websocket/mod.rs \
  's/config.admits(&request.owner, request.by)/config.admits(\&request.owner, request.by) || true/' it \
  a_connection_ends_with_the_token_that_opened_it
row access "a found file takes a secret for the token" src/config/load/trust.rs \
  's/if !of_table.is_some_and(|(_, allowed)| allowed.contains(&key.as_str())) {/if false {/' \
  lib a_file_that_was_found_runs_nothing_and_moves_no_key
row access "a file that was found has webhooks" src/config/load/trust.rs \
  's/filter(|(name, _)| \*name != "providers")/filter(|(name, _)| !matches!(name.as_str(), "providers" | "webhooks"))/' \
  lib a_file_that_was_found_runs_nothing_and_moves_no_key

row access "pages of this machine are read" src/tools/web/dialler.rs \
  's/if !addresses.iter().all(may_reach)/if false \&\& !addresses.iter().all(may_reach)/' \
  lib no_spelling_of_a_forbidden_address_is_reached

row secrets "names that a client chose keep the keys in them" src/secrets/redactor.rs \
  's/self.prefixes.is_none() || text.len() < self.shortest_prefix/self.prefixes.is_none() || !text.is_empty()/' \
  it canaries_stay_inside
row secrets "character references of HTML are not read" src/secrets/redactor.rs \
  's/for escapes in \[Encoding::Json, Encoding::Html\]/for escapes in [Encoding::Json]/' \
  lib a_key_is_redacted_in_every_encoding
row secrets "every user can read the token" src/commands/run/mod.rs \
  's/^            Some(_) => CodexToken::Variable(TOKEN_VARIABLE),/            Some(ref token) => { let _ = TOKEN_VARIABLE; CodexToken::Written(token) }/' \
  it codex_runs_with_the_server_that_runs_already
row secrets "others may read the files" src/store/data_dir.rs \
  's/set_mode(&self.file_beside(suffix), 0o600)/set_mode(\&self.file_beside(suffix), 0o644)/' \
  lib only_the_owner_can_read_the_files
row secrets "others may read a backup" src/store/inspection.rs \
  's/^        .mode(0o600)/        .mode(0o644)/' \
  lib a_backup_is_a_private_file_with_everything_while_a_server_writes
row secrets "a terminal gets every escape sequence" src/commands/mod.rs \
  's/^    if is_terminal {/    if is_terminal \&\& false {/' lib only_a_pipe_gets_escape_sequences

row streams "an answer has two terminal events" adapters/src/responses/assembler/end.rs \
  's/^        self.writer.to(events).response_event(status.event_name());/&&/' \
  properties every_answer_becomes_a_strict_stream_with_the_same_content
row streams "a turn is tried again after content" src/turn/engine/reading.rs \
  's/^                \*has_content |= event.is_content();/                let _ = event.is_content();/' \
  it a_turn_is_never_retried_after_content

row durability "the terminal event is written before the response" src/jobs/log.rs \
  's/if events.is_ending || !has_events/if !has_events/' \
  lib the_last_events_are_written_with_the_response
row durability "the last events are not written" src/jobs/log.rs \
  's/webhooks, response, batch, false).await {/webhooks, response, EventBatch::default(), false).await {/' \
  lib the_last_events_are_written_with_the_response
row durability "a job that had begun begins again" src/jobs/recovery.rs \
  's/JobState::Running | JobState::Ended => self.end_interrupted(job).await,/JobState::Running | JobState::Ended => self.wait_again(job).await,/' it \
  a_job_that_was_interrupted_ends_as_failed
row durability "an event is deleted before it is delivered" src/jobs/webhooks/mod.rs \
  's/let sent = attempt::send(/shared.store.end_delivery(name, delivery.response).await?; let sent = attempt::send(/' \
  it an_event_is_told_again_after_the_program_was_killed
row durability "one that cannot be written fails the others" src/store/group_commit.rs \
  's/^    for mut change in changes {/    for mut change in changes.into_iter().take(0) {/' \
  lib events_that_cannot_be_written_do_not_fail_those_of_other_jobs
row durability "a store of a newer version is used" src/store/schema.rs \
  's/return Err(StoreError::Newer(version));/return Ok(());/' \
  lib the_store_of_a_newer_version_is_left_alone
row durability "artifacts that cannot be written to disk are lost" src/artifacts/disk.rs \
  's/unwritten.artifacts, self.named/Vec::new(), self.named/' \
  lib a_failed_write_is_reported_once_and_replaced_by_memory
row durability "a read sees half of what is written meanwhile" src/store/readers.rs \
  's/    let result = read(&transaction)?;/    transaction.execute_batch("COMMIT")?; let result = read(\&transaction)?; transaction.execute_batch("BEGIN")?;/' \
  lib what_is_written_meanwhile_is_not_seen_in_part

row deletion "nothing is deleted" src/store/sweep.rs \
  's/DELETE FROM refs WHERE accessed < ?1 AND NOT/DELETE FROM refs WHERE accessed < ?1 AND 0 AND NOT/' \
  lib an_artifact_is_deleted_thirty_days_after_its_last_access
row deletion "a response that is deleted leaves its events" src/app/stored/responses.rs \
  's/        jobs.forget(&owner, &id);/        let _ = jobs;/' \
  it a_job_that_is_deleted_is_gone_with_its_events
row deletion "a purge keeps the log" src/store/mod.rs \
  '/pub async fn purge/,/^    }/s/writer.empty_log()/Ok(true)/' \
  lib a_purge_leaves_no_row_and_no_text_in_any_file
row deletion "a purge leaves what it deleted in free pages" src/store/inspection.rs \
  's/execute_batch("VACUUM")/execute_batch("")/' \
  lib a_purge_leaves_no_row_and_no_text_in_any_file

row memory "memory has no limit" src/net/memory/mod.rs \
  's/^        if self.memory.fits(bytes - before) {/        if true {/' \
  it a_body_beyond_the_memory_of_the_process_is_refused_and_taken_when_there_is_room
row memory "a body takes its memory step by step" src/serve/body.rs \
  's/share.request(memory_of(likely, likely)).await?;/share.request(memory_of(0, 0)).await?;/' it \
  a_body_has_all_of_its_memory_before_it_is_read_or_waits_with_nothing_in_hand
row memory "requests of jobs that wait stay in memory" src/jobs/queue.rs \
  's/^        drop(accepted.memory);/        std::mem::forget(accepted.memory);/' it \
  requests_of_jobs_that_wait_are_on_the_disk_alone

row limits "a client has any number of turns at once" src/turn/owner_limits.rs \
  's/is_some_and(|most| count >= most)/is_some_and(|most| count > most + 9)/' it \
  a_client_has_as_many_turns_at_once_as_it_may_and_others_are_not_held_up
row limits "a request may have any number of items" adapters/src/responses/request_body.rs \
  's/^        while items.len() < MAX_ITEMS {/        while items.len() < usize::MAX {/' \
  hostile a_request_has_a_hundred_thousand_items_at_most
row limits "an answer may have any number of calls" adapters/src/chat/decode/calls.rs \
  's/^        if slot >= MAX_CALLS {/        if slot == usize::MAX {/' \
  hostile an_answer_has_limits_for_calls_and_items
row limits "a message of any size is read" src/serve/websocket/reader.rs \
  's/let length = length.filter(|length| \*length <= room);/let _ = room;/' it \
  a_message_beyond_the_limit_of_bodies_ends_its_connection
row limits "a turn may take for ever" src/turn/engine/reading.rs \
  's/^        self.check_deadline()?;$/        let _ = Self::check_deadline;/' \
  it a_turn_that_goes_on_for_ever_ends_at_turn_timeout
row limits "stored prompts have no limit" src/store/prompts.rs \
  's/^        limit_bytes(connection, MAX_BYTES)?;/        limit_bytes(connection, u64::MAX >> 1)?;/' \
  lib stored_prompts_are_limited_and_swept
}

# Bash reads a block as a whole, so the script may be edited while it runs.
{
  if [ -n "$check" ]; then
    pass=check
    rows
    [ $failed -ne 0 ] || echo "$checked changes apply, and their tests exist"
    exit $failed
  fi

  for pass in green red; do rows; done
  exit $failed
}
