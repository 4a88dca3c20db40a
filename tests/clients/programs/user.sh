# What a user does in the cases of troubleshooting.

# Starts the server with these arguments and waits until it answers; prints its log if it does not start.
start() {
  respondent "$@" >"$HOME/server.log" 2>&1 &
  local server=$!
  until curl --silent --output /dev/null "$SERVER/healthz"; do
    if ! kill -0 $server 2>/dev/null; then
      cat "$HOME/server.log"
      wait $server
      return
    fi
    sleep 0.05
  done
}

# Sends a turn to a model, with further arguments for curl. Prints the answer; fails if it is an error.
ask() {
  local body="{\"model\": \"$1\", \"input\": \"${INPUT:-Say hello.}\"}"
  shift
  curl --silent --show-error --max-time 60 "$SERVER/v1/responses" \
    --header 'content-type: application/json' --data "$body" "$@" | tee "$HOME/answer"
  grep --quiet '"status":"completed"' "$HOME/answer"
}

# Makes a configuration file of standard input.
config() {
  mkdir -p ~/.config/respondent
  cat >~/.config/respondent/proxy-config.toml
}

# Makes the configuration of a provider with this address; standard input is added to its table.
mine() {
  { printf '[providers.mine]\nbase_url = "%s"\napi_key_env = "MINE_API_KEY"\n' "$1"; cat; } | config
}
