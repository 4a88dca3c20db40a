# A user's first hour with a program that was just installed. The address $URL and the key $LAB_KEY are all that is
# known of a provider.
set -euo pipefail

# Starts a server whose log is kept, and waits until it listens.
start() {
  respondent >"$HOME/server.log" 2>&1 &
  until grep --quiet 'Ctrl-C to stop' "$HOME/server.log"; do
    kill -0 $! || { cat "$HOME/server.log"; exit 1; }
    sleep 0.05
  done
}

stop() {
  kill %respondent
  wait %respondent
}

respondent run codex --model sandbox-1 exec "Say hello."

respondent doctor --url "$URL" --key-env LAB_KEY --provider lab --write
cat ~/.config/respondent/providers/lab.toml
start
respondent codex setup --model lab/m2
codex exec -p respondent "What does the note say?"
respondent codex status
respondent codex remove
find ~/.codex -name '*respondent*' -exec echo left: {} +
stop
echo "the server has stopped"
