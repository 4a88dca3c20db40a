#!/bin/sh
# Measures searches and pages in a network that has nothing but loopback, one address of which is public: pages of this
# machine are not read. The arguments are those of `respondent-bench web`. Needs util-linux and iproute2.
cd "$(dirname "$0")/../.." || exit 1
bench="${RESPONDENT_BENCH:-target/dist/respondent-bench}"
[ "$(id -u)" = 0 ] || root=--map-root-user
# shellcheck disable=SC2016,SC2086
exec unshare --net $root sh -c \
    'ip link set lo up && ip address add 93.184.215.14/32 dev lo && exec "$0" web "$@"' "$bench" "$@"
