//! Makes addresses in a page whole, so that a model can open what the page links to.

use dom_query::Document;
use url::Url;

use crate::tools::web::fetch::MAX_URL;

/// The elements whose addresses are shown, and the attributes that have them.
const SHOWN: [(&str, &str); 2] = [("a[href]", "href"), ("img[src]", "src")];

/// Replaces the addresses of links and pictures that are relative to the page at `url`, as long as
/// that makes the page no more than `room` bytes longer. Places in the same page stay as they are,
/// and the page has no other base any more. A base that is longer than an address may be does not
/// count.
pub(super) fn make_whole(page: &Document, url: &Url, mut room: usize) {
    let base = page.select_single("base[href]").attr("href");
    page.select("base").remove();
    let base = base.and_then(|base| url.join(base.trim()).ok());
    // Each join copies the base.
    let is_usable =
        |base: &&Url| matches!(base.scheme(), "http" | "https") && base.as_str().len() <= MAX_URL;
    let base = base.as_ref().filter(is_usable).unwrap_or(url);
    for (selector, attribute) in SHOWN {
        for node in page.select(selector).nodes() {
            let Some(address) = node.attr(attribute) else {
                continue;
            };
            let address = address.trim();
            let is_whole = Url::parse(address).is_ok();
            if is_whole || address.is_empty() || address.starts_with('#') {
                continue;
            }
            let Ok(whole) = base.join(address) else {
                continue;
            };
            let longer = whole.as_str().len().saturating_sub(address.len());
            let Some(left) = room.checked_sub(longer) else {
                return;
            };
            room = left;
            node.set_attr(attribute, whole.as_str());
        }
    }
}
