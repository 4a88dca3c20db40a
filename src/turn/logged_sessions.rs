//! What the log for people knows of sessions: a short name for each, and what was told of it.

use adapters::turn::{Item, ItemKind, Turn};
use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::caller::Session;
use crate::log::SafeText;

/// The most sessions that are remembered.
const MAX_SESSIONS: usize = 1024;

/// The most facts of a session that are remembered; further ones are not told.
const MAX_TOLD: usize = 64;

/// The most characters of the name of a folder.
const MAX_FOLDER_CHARS: usize = 32;

/// The items at the beginning of a request among which Codex describes its environment, and the
/// bytes at the beginning of each that are looked at.
const SEARCHED: (usize, usize) = (8, 16_384);

/// The sessions that the log has told of. Lives as long as the process.
#[derive(Debug, Default)]
pub(super) struct LoggedSessions {
    /// By the hash of the session's id, the one that was not used for the longest time first.
    by_id: Mutex<LinkedHashMap<u64, LoggedSession>>,
}

#[derive(Debug, Default)]
struct LoggedSession {
    folder: Option<Box<str>>,
    /// The hashes of what was told.
    told: Vec<u64>,
}

impl LoggedSessions {
    /// The tag of a session: the name of its folder, if a client has told it, else a short word
    /// made from the id, which is always the same. Empty for a session without an id.
    pub(super) fn tag(&self, session: &Session) -> String {
        if session.id.is_empty() {
            return String::new();
        }
        let folder = self.with(&session.id, |known| {
            if let Some(folder) = &session.folder
                && known.folder.is_none()
            {
                known.folder = Some(folder.clone());
            }
            known.folder.clone()
        });
        folder.map_or_else(|| word(xxh3_64(session.id.as_bytes())), String::from)
    }

    /// Whether this was not told of the session before. From now on it was.
    pub(super) fn is_news(&self, session: &str, fact: &[&str]) -> bool {
        let fact = xxh3_64(fact.join("\n").as_bytes());
        self.with(session, |known| {
            let is_news = known.told.len() < MAX_TOLD && !known.told.contains(&fact);
            if is_news {
                known.told.push(fact);
            }
            is_news
        })
    }

    fn with<T>(&self, session: &str, action: impl FnOnce(&mut LoggedSession) -> T) -> T {
        let id = xxh3_64(session.as_bytes());
        let mut by_id = self.by_id.lock();
        let mut known = by_id.remove(&id).unwrap_or_default();
        let result = action(&mut known);
        by_id.insert(id, known);
        if by_id.len() > MAX_SESSIONS {
            by_id.pop_front();
        }
        result
    }
}

/// The name of the folder that Codex works in, as it tells the model at the beginning of a session.
pub(super) fn folder_of(turn: &Turn<'_>) -> Option<Box<str>> {
    let (items, bytes) = SEARCHED;
    let users = turn
        .items
        .iter()
        .take(items)
        .filter(|item| is_of_user(item));
    users.filter_map(Item::content).find_map(|content| {
        let content = content.get();
        let content = content.get(..content.floor_char_boundary(bytes))?;
        let (_, context) = content.split_once("<environment_context>")?;
        let (_, path) = context.split_once("<cwd>")?;
        let (path, _) = path.split_once("</cwd>")?;
        // The path is still a part of a JSON string.
        let path: String = serde_json::from_str(&format!("\"{path}\"")).ok()?;
        let name = path.rsplit(['/', '\\']).find(|name| !name.is_empty())?;
        Some(SafeText::up_to(name, MAX_FOLDER_CHARS).to_string().into())
    })
}

fn is_of_user(item: &Item<'_>) -> bool {
    item.kind == ItemKind::Message && item.role() == "user"
}

/// Five letters that can be spoken, for a hash: a proquint.
fn word(hash: u64) -> String {
    const CONSONANTS: &[u8] = b"bdfghjklmnprstvz";
    const VOWELS: &[u8] = b"aiou";
    let letters = [CONSONANTS, VOWELS, CONSONANTS, VOWELS, CONSONANTS];
    let letters = letters.iter().zip(hash.to_le_bytes());
    letters
        .filter_map(|(letters, byte)| letters.get(usize::from(byte) % letters.len()))
        .copied()
        .map(char::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use adapters::responses::request::TurnSource;
    use serde_json::json;

    use super::*;

    fn session(id: &str, folder: Option<&str>) -> Session {
        Session {
            id: id.to_owned(),
            derived: false,
            folder: folder.map(Into::into),
        }
    }

    #[test]
    fn a_session_has_the_name_of_its_folder_or_a_word_of_its_own() {
        let sessions = LoggedSessions::default();
        let plain = sessions.tag(&session("s1", None));
        assert_eq!(plain, sessions.tag(&session("s1", None)));
        assert_eq!(plain, LoggedSessions::default().tag(&session("s1", None)));
        assert_ne!(plain, sessions.tag(&session("s2", None)));
        assert!(
            plain.len() == 5 && plain.chars().all(|c| c.is_ascii_lowercase()),
            "{plain}"
        );
        // A request that continues a session need not tell its folder again.
        assert_eq!(sessions.tag(&session("s3", Some("proj"))), "proj");
        assert_eq!(sessions.tag(&session("s3", None)), "proj");
        assert_eq!(sessions.tag(&session("s3", Some("other"))), "proj");
        assert_eq!(sessions.tag(&session("", None)), "");
    }

    #[test]
    fn what_is_remembered_of_sessions_is_limited() {
        let sessions = LoggedSessions::default();
        assert!(sessions.is_news("s", &["a", "b"]));
        assert!(!sessions.is_news("s", &["a", "b"]));
        assert!(sessions.is_news("t", &["a", "b"]));
        for fact in 0..MAX_TOLD * 2 {
            sessions.is_news("s", &[&fact.to_string()]);
        }
        assert!(!sessions.is_news("s", &["one more"]));
        for id in 0..MAX_SESSIONS * 2 {
            sessions.tag(&session(&id.to_string(), None));
        }
        assert_eq!(sessions.by_id.lock().len(), MAX_SESSIONS);
    }

    #[test]
    fn the_folder_is_the_last_part_of_the_path_that_codex_tells() {
        for (path, name) in [
            ("/home/me/work/proj", Some("proj")),
            ("/home/me/pr\u{e9}f/", Some("pr\u{e9}f")),
            (r"C:\work\proj", Some("proj")),
            ("/tmp/\u{1b}[31mred\nline", Some("\\u001b[31mred\\nline")),
            ("/", None),
        ] {
            let text = format!("<environment_context>\n  <cwd>{path}</cwd>\n  <shell>bash</shell>");
            let item = |role: &str, text: &str| {
                let content = json!([{"type": "input_text", "text": text}]);
                json!({"type": "message", "role": role, "content": content})
            };
            let input = [
                item("developer", "Rules"),
                item("user", &text),
                item("user", "Hi"),
            ];
            let source = TurnSource::new(json!({"model": "m", "input": input}).to_string());
            assert_eq!(
                folder_of(&source.turn().unwrap()).as_deref(),
                name,
                "{path}"
            );
        }
        let other = json!({"model": "m", "input": "<cwd>/a/b</cwd>"}).to_string();
        assert_eq!(folder_of(&TurnSource::new(other).turn().unwrap()), None);
    }
}
