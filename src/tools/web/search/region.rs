//! The regions of DuckDuckGo: a country and a language.
//!
//! Source: the values of `kl` in serpapi/serpapi-mcp, engines/duckduckgo.json, and in
//! searxng/searxng, searx/engines/duckduckgo.py, which maps `xa` and `sl`.

/// All regions.
pub(super) const ALL_REGIONS: &str = "wt-wt";

/// Countries of ISO 3166-1 with their regions; of a country with several languages, the first.
const REGIONS: [(&str, &str); 57] = [
    ("AR", "ar-es"),
    ("AT", "at-de"),
    ("AU", "au-en"),
    ("BE", "be-fr"),
    ("BG", "bg-bg"),
    ("BR", "br-pt"),
    ("CA", "ca-en"),
    ("CH", "ch-de"),
    ("CL", "cl-es"),
    ("CN", "cn-zh"),
    ("CO", "co-es"),
    ("CZ", "cz-cs"),
    ("DE", "de-de"),
    ("DK", "dk-da"),
    ("EE", "ee-et"),
    ("ES", "es-es"),
    ("FI", "fi-fi"),
    ("FR", "fr-fr"),
    ("GB", "uk-en"),
    ("GR", "gr-el"),
    ("HK", "hk-tzh"),
    ("HR", "hr-hr"),
    ("HU", "hu-hu"),
    ("ID", "id-en"),
    ("IE", "ie-en"),
    ("IL", "il-en"),
    ("IN", "in-en"),
    ("IS", "is-is"),
    ("IT", "it-it"),
    ("JP", "jp-jp"),
    ("KR", "kr-kr"),
    ("LT", "lt-lt"),
    ("LV", "lv-lv"),
    ("MX", "mx-es"),
    ("MY", "my-en"),
    ("NL", "nl-nl"),
    ("NO", "no-no"),
    ("NZ", "nz-en"),
    ("PE", "pe-es"),
    ("PH", "ph-en"),
    ("PK", "pk-en"),
    ("PL", "pl-pl"),
    ("PT", "pt-pt"),
    ("RO", "ro-ro"),
    ("RU", "ru-ru"),
    ("SA", "xa-ar"),
    ("SE", "se-sv"),
    ("SG", "sg-en"),
    ("SI", "sl-sl"),
    ("SK", "sk-sk"),
    ("TH", "th-en"),
    ("TR", "tr-tr"),
    ("TW", "tw-tzh"),
    ("UA", "ua-uk"),
    ("US", "us-en"),
    ("VN", "vn-en"),
    ("ZA", "za-en"),
];

/// The region of a country in capital letters.
pub(super) fn region(country: &str) -> Option<&'static str> {
    let found = REGIONS.iter().find(|(code, _)| *code == country);
    found.map(|(_, region)| *region)
}
