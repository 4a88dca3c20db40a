//! The addresses in a text, and their number at each site.

use std::collections::HashMap;

use super::one_line;

/// No more sites are counted one by one.
const MAX_SITES: usize = 1_024;

const MAX_HOST_BYTES: usize = 120;

/// How many addresses each site has.
#[derive(Default)]
pub(in crate::excerpt) struct Sites {
    addresses: usize,
    /// Those with fewest addresses first.
    hosts: Vec<(String, usize)>,
    has_more: bool,
}

/// Counts the addresses of a text.
pub(super) fn read(text: &str) -> Sites {
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    let (mut addresses, mut has_more) = (0, false);
    for at in memchr::memmem::find_iter(text.as_bytes(), b"://") {
        addresses += 1;
        let Some(host) = host(text, at + 3) else {
            continue;
        };
        let place = counts.len();
        match counts.get_mut(host) {
            Some((_, count)) => *count += 1,
            None if place < MAX_SITES => {
                counts.insert(host, (place, 1));
            }
            None => has_more = true,
        }
    }
    let mut sites: Vec<(&str, (usize, usize))> = counts.into_iter().collect();
    sites.sort_unstable_by_key(|(_, (place, count))| (*count, *place));
    Sites {
        addresses,
        hosts: sites
            .into_iter()
            .map(|(host, (_, count))| (host.to_owned(), count))
            .collect(),
        has_more,
    }
}

/// The name of the host at a byte.
fn host(text: &str, at: usize) -> Option<&str> {
    let rest = text.as_bytes().get(at..)?;
    let rest = rest.get(..MAX_HOST_BYTES).unwrap_or(rest);
    let is_host = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':');
    let length = rest.iter().take_while(is_host).count();
    let host = text.get(at..at + length)?.trim_end_matches([':', '.']);
    (!host.is_empty()).then_some(host)
}

impl Sites {
    /// How many addresses there are, on a line.
    pub(super) fn count(&self) -> String {
        match self.addresses {
            0 => String::new(),
            count => format!("({count} addresses in all)\n"),
        }
    }

    /// The sites, those with most addresses first; or, if they do not fit, those with fewest.
    pub(super) fn text(&self, room: usize) -> String {
        let count = self.hosts.len();
        if count < 2 {
            return String::new();
        }
        let more = if self.has_more { "at least " } else { "" };
        let head = format!("Addresses by site, {more}{count} sites: ");
        let name = |(host, count): &(String, usize)| format!("{} {count}", one_line(host, 60));
        let left = room.saturating_sub(head.len());
        format!("{head}{}\n", super::by_count(&self.hosts, name, left))
    }
}
