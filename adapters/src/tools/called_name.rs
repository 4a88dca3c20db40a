//! The name of a tool in a call, freed of what models leave in it: tokens of their own format
//! (`shell<|channel|>commentary`), the place where their template puts the tools
//! (`functions.shell`), the number of the call (`functions.shell:0`), quotes and white space.

/// Where the templates of models put the tools.
const PLACES: [&str; 6] = [
    "functions",
    "function",
    "default_api",
    "tools",
    "tool",
    "recipient_name",
];

/// The names that a call may mean, the likeliest first. None is the same as one before it.
pub(super) fn forms(called: &str) -> impl Iterator<Item = &str> {
    let plain = without_tokens(called);
    let unnumbered = without_number(plain);
    let placed = without_place(unnumbered);
    let further = [plain, unnumbered, placed];
    let is_new = move |at: usize, name: &str| {
        name != called && further.iter().take(at).all(|earlier| *earlier != name)
    };
    let named = |name: &&str| name.contains(char::is_alphanumeric);
    let further = further.into_iter().enumerate();
    let further = further.filter_map(move |(at, name)| is_new(at, name).then_some(name));
    std::iter::once(called).chain(further).filter(named)
}

/// Whether a name is the prefix and the name of a tool, without regard to case and to the signs in
/// them.
pub(super) fn is_alike(called: &str, prefix: &str, name: &str) -> bool {
    signless(called).eq(signless(prefix).chain(signless(name)))
}

fn signless(text: &str) -> impl Iterator<Item = char> {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
}

/// The first part of a name that has more than tokens such as `<|channel|>`, or the recipient that
/// it names.
fn without_tokens(called: &str) -> &str {
    let mut rest = called;
    if let Some((_, recipient)) = called.split_once("to=") {
        rest = recipient;
        rest = rest.split(char::is_whitespace).next().unwrap_or_default();
    }
    loop {
        let (head, token) = rest.split_once('<').unwrap_or((rest, ""));
        let head = bare(head);
        let behind = token.split_once('>').map(|(_, behind)| behind);
        match behind.filter(|_| head.is_empty()) {
            Some(behind) => rest = behind,
            None => return head,
        }
    }
}

/// The name without quotes, white space and the signs of a call around it.
fn bare(name: &str) -> &str {
    name.trim_matches(|c: char| c.is_whitespace() || "\"'`*()[]{}.,:;=".contains(c))
}

/// The name without the number of the call, as in `shell:0`.
fn without_number(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => name,
        Some(_) | None => name,
    }
}

/// The name without the place of the tools before it.
fn without_place(name: &str) -> &str {
    let mut rest = name;
    while let Some(after) = PLACES.iter().find_map(|place| {
        let (head, after) = rest.split_at_checked(place.len())?;
        let is_place = head.eq_ignore_ascii_case(place) && after.starts_with(['.', ':', '/']);
        is_place.then_some(after)
    }) {
        rest = after.trim_start_matches(['.', ':', '/']);
    }
    rest
}
