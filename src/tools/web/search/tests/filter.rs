use super::*;

fn kept(query: &WebQuery, urls: &[&str]) -> Vec<String> {
    let hits = urls.iter().map(|url| found(url, "", "")).collect();
    let kept = filter_hits(query, hits);
    kept.into_iter().map(|hit| hit.url).collect()
}

#[test]
fn domains_hold_what_is_below_them_and_nothing_else() {
    let mut query = words("rust");
    query.allowed_domains = list(&["PubMed.gov.", "*.münchen.example", "1.2.3.4"]);
    query.blocked_domains = list(&["ads.pubmed.gov"]);
    let fitting = [
        "https://pubmed.gov/",
        "http://www.PUBMED.gov:8080/a?b",
        "https://a.b.pubmed.gov./x",
        "https://xn--mnchen-3ya.example/",
        "https://1.2.3.4/",
    ];
    assert_eq!(kept(&query, &fitting), fitting);
    for other in [
        "https://evilpubmed.gov/",
        "https://pubmed.gov.evil.example/",
        "https://pubmed.gov@evil.example/",
        "https://ads.pubmed.gov/",
        "https://x.ads.pubmed.gov/",
        "https://gov/",
        "https://5.1.2.3.4.example/",
        "https://example.org/?pubmed.gov",
    ] {
        assert!(kept(&query, &[other]).is_empty(), "{other}");
    }
}

/// Otherwise a list with a typing error would allow everything.
#[test]
fn a_list_without_a_domain_allows_nothing() {
    let mut query = words("rust");
    query.allowed_domains = list(&["not a domain"]);
    assert!(kept(&query, &["https://example.org/"]).is_empty());
}

#[test]
fn only_addresses_of_the_web_are_kept_each_once() {
    let long = format!("https://example.org/{}", "a".repeat(2_000));
    let longest = format!("https://example.org/{}", "a".repeat(1_980));
    let urls = [
        "https://example.org",
        "https://EXAMPLE.org/",
        "https://example.org/#part",
        "https://example.org/?page=2",
        "ftp://example.org/",
        "javascript:alert(1)",
        "data:text/html,x",
        "/relative",
        "https://",
        "",
        &long,
        &longest,
    ];
    let expected = [
        "https://example.org",
        "https://example.org/?page=2",
        &longest,
    ];
    assert_eq!(kept(&words("rust"), &urls), expected);
}

#[test]
fn no_more_results_are_kept_than_are_wanted() {
    let mut query = words("rust");
    query.results = 2;
    let urls = [
        "https://a.example/",
        "bad",
        "https://b.example/",
        "https://c.example/",
    ];
    assert_eq!(
        kept(&query, &urls),
        ["https://a.example/", "https://b.example/"]
    );
}

#[test]
fn a_title_is_cut_between_characters_and_the_rest_is_unchanged() {
    let mut hit = found("https://a.example/", &"日".repeat(501), "snippet");
    hit.published = Some("2026-11-28".to_owned());
    hit.score = Some(0.5);
    let mut expected = hit.clone();
    expected.title = "日".repeat(500);
    assert_eq!(filter_hits(&words("rust"), vec![hit]), [expected]);
}

/// Citations are found by ASCII addresses alone.
#[test]
fn an_address_in_another_script_is_encoded() {
    let urls = ["https://ja.wikipedia.org/wiki/東京#歴史"];
    let encoded = "https://ja.wikipedia.org/wiki/%E6%9D%B1%E4%BA%AC#%E6%AD%B4%E5%8F%B2";
    assert_eq!(kept(&words("東京"), &urls), [encoded]);
}
