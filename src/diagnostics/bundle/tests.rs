use std::io::Write;

use super::*;

fn error(bytes: &[u8]) -> String {
    match Bundle::from_bytes(bytes) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_written_is_read() {
    for turns in [1, 3] {
        let bundle = sample::bundle(turns);
        let bytes = bundle.to_bytes().unwrap();
        assert!(Bundle::from_bytes(&bytes).unwrap() == bundle);
        assert!(bundle.to_bytes().unwrap() == bytes);
    }
}
