//! The Responses API over WebSockets. The client is written by hand, because it has to send what
//! no library does.

pub mod client;
mod continuing;
mod ending;
mod framing;
mod hostile;
mod lanes;
mod turns;

use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    let all = [
        turns::trials(),
        continuing::trials(),
        framing::trials(),
        lanes::trials(),
        hostile::trials(),
        ending::trials(),
    ];
    all.into_iter().flatten().collect()
}
