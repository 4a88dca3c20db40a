pub(crate) mod sample;

use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use proptest::prelude::*;
use tar::{Archive, Builder, EntryType, Header};

use super::*;

/// The error message for bytes that are not a valid bundle.
fn error(bytes: &[u8]) -> String {
    match Bundle::from_bytes(bytes) {
        Ok(_) => "it was read".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn valid() -> Vec<u8> {
    sample::bundle(1).to_bytes().unwrap()
}

fn pack(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 3).unwrap()
}

/// The entries of the sample: header and contents.
fn entries() -> Vec<(Header, Vec<u8>)> {
    let tar = zstd::decode_all(&valid()[..]).unwrap();
    let mut archive = Archive::new(&tar[..]);
    let entry = |entry: io::Result<tar::Entry<_>>| {
        let mut entry = entry.unwrap();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).unwrap();
        (entry.header().clone(), contents)
    };
    archive.entries().unwrap().map(entry).collect()
}

fn tar(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (header, contents) in entries {
        tar.append(header, &contents[..]).unwrap();
    }
    tar.into_inner().unwrap()
}

fn header(name: &[u8], size: usize, kind: EntryType) -> Header {
    let mut header = Header::new_ustar();
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(size as u64);
    header.set_mode(0o600);
    header.set_cksum();
    header
}

/// The sample with one text of an entry replaced.
fn edited(entry: usize, from: &str, to: &str) -> Vec<u8> {
    let mut entries = entries();
    let (old, contents) = &entries[entry];
    let text = str::from_utf8(contents).unwrap();
    assert!(text.contains(from), "{text}");
    let contents = text.replacen(from, to, 1).into_bytes();
    let header = header(&old.path_bytes(), contents.len(), EntryType::Regular);
    entries[entry] = (header, contents);
    pack(&tar(&entries))
}

#[test]
fn a_written_bundle_is_read_back() {
    for turns in [1, 3] {
        let bundle = sample::bundle(turns);
        let bytes = bundle.to_bytes().unwrap();
        assert!(Bundle::from_bytes(&bytes).unwrap() == bundle);
        assert!(bundle.to_bytes().unwrap() == bytes);
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let names: Vec<String> = entries()
        .iter()
        .map(|(header, _)| {
            assert_eq!(header.mode().unwrap(), 0o600);
            assert_eq!(header.mtime().unwrap(), 0);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            String::from_utf8(header.path_bytes().into_owned()).unwrap()
        })
        .collect();
    assert_eq!(
        names,
        [
            "bundle.json",
            "turns/1/turn.json",
            "turns/1/request.json",
            "turns/1/plan.json",
            "turns/1/attempts/1/request.json",
            "turns/1/attempts/1/answer",
            "turns/1/attempts/2/request.json",
            "turns/1/attempts/2/answer",
            "turns/1/answer",
        ]
    );
    let (_, manifest) = &entries()[0];
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        String::from_utf8_lossy(manifest),
        format!(
            "{{\n  \"format\": \"respondent-bundle\",\n  \"version\": 3,\n  \"made_by\": \"{version}\",\n  \
             \"images\": false,\n  \"encrypted\": true,\n  \"turns\": 1\n}}\n"
        )
    );
}

#[test]
fn a_bundle_repacked_by_tar_is_read() {
    let mut bytes = tar(&entries());
    bytes.resize(bytes.len().next_multiple_of(10_240), 0);
    let bundle = Bundle::from_bytes(&pack(&bytes)).unwrap();
    assert!(bundle == sample::bundle(1));
}

#[test]
fn other_files_are_reported_as_no_bundle() {
    let no_bundle = "this is not a bundle: name a file that `respondent bundle create` wrote";
    let cases: [(&str, Vec<u8>); 9] = [
        ("nothing", Vec::new()),
        ("half a magic", vec![0x28, 0xb5]),
        ("a tar", tar(&entries())),
        ("gzip", vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0]),
        ("zstd of nothing", pack(b"")),
        ("zstd of a text", pack(b"hello")),
        ("zstd of a long text", pack(&b"hello".repeat(1000))),
        (
            "another tar",
            pack(&tar(&[(
                header(b"bundle.json", 2, EntryType::Regular),
                b"{}".to_vec(),
            )])),
        ),
        ("an empty tar", pack(&[0; 1024])),
    ];
    for (what, bytes) in cases {
        assert_eq!(error(&bytes), no_bundle, "{what}");
    }
    let other = edited(0, "respondent-bundle", "another-bundle");
    assert_eq!(error(&other), no_bundle);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let read = |name: &str| {
        Bundle::read(&path(name))
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let _socket = UnixListener::bind(path("socket")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(path("pipe"))
        .status();
    assert!(made.unwrap().success());
    symlink(path("pipe"), path("link")).unwrap();
    for name in ["", "socket", "pipe", "link"] {
        let message =
            "this is not a regular file: name a file that `respondent bundle create` wrote";
        assert_eq!(read(name), message, "{name}");
    }
    assert_eq!(
        read("missing"),
        "the file cannot be read: No such file or directory (os error 2)"
    );
    std::fs::write(path("bundle"), valid()).unwrap();
    assert!(Bundle::read(&path("bundle")).unwrap() == sample::bundle(1));
}

#[test]
fn a_file_beyond_the_limit_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    // A sparse file takes no disk space.
    std::fs::File::create(&path)
        .unwrap()
        .set_len(MAX_FILE_BYTES + 1)
        .unwrap();
    let error = Bundle::read(&path).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the bundle is too large (the bytes of the file are more than 268435456): \
         put fewer turns into it"
    );
}

/// Promise: Bundles are treated as untrusted: entries with unexpected names or types, decompression
/// bombs, too many entries and damaged files are refused, and nothing is written to disk.
#[test]
fn entries_of_other_kinds_and_names_are_refused() {
    let mut cases: Vec<(&[u8], EntryType)> = vec![
        (b"turns/1/request.json", EntryType::Symlink),
        (b"turns/1/request.json", EntryType::Link),
        (b"turns/1/request.json", EntryType::Char),
        (b"turns/1/request.json", EntryType::Block),
        (b"turns/1/request.json", EntryType::Fifo),
        (b"turns/1/request.json", EntryType::Directory),
        (b"turns/1/request.json", EntryType::Continuous),
        (b"turns/1/request.json", EntryType::GNUSparse),
        (b"././@LongLink", EntryType::GNULongName),
        (b"././@LongLink", EntryType::GNULongLink),
        (b"turns/1/request.json", EntryType::XHeader),
        (b"turns/1/request.json", EntryType::XGlobalHeader),
    ];
    let names: [&[u8]; 8] = [
        b"../../etc/passwd",
        b"/etc/passwd",
        b"turns/1/../../../x",
        b"turns/1/attempts/1/../answer",
        b"./turns/1/request.json",
        b"turns/1/request.json\x1b[31m\nforged",
        b"turns/1/\xff",
        b"",
    ];
    cases.extend(names.map(|name| (name, EntryType::Regular)));
    for (name, kind) in cases {
        let foreign = (header(name, 3, kind), b"abc".to_vec());
        for position in [1, 2, 9] {
            let mut entries = entries();
            entries.insert(position, foreign.clone());
            let message = error(&pack(&tar(&entries)));
            let what = String::from_utf8_lossy(name);
            assert!(
                message.contains("does not belong in a bundle: do not trust this file"),
                "{what} {kind:?} at {position}: {message}"
            );
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
}

#[test]
fn missing_and_repeated_entries_are_named() {
    let all = entries();
    for position in 1..all.len() {
        let name = String::from_utf8(all[position].0.path_bytes().into_owned()).unwrap();
        let message = format!(
            "the bundle is damaged ({name} is missing): get it again from where it came from"
        );
        let mut less = all.clone();
        less.remove(position);
        assert_eq!(error(&pack(&tar(&less))), message);
        let mut twice = all.clone();
        twice.insert(position, all[position - 1].clone());
        assert_eq!(error(&pack(&tar(&twice))), message);
    }
    let mut twice = all.clone();
    twice.push(all[8].clone());
    assert!(error(&pack(&tar(&twice))).starts_with("\"turns/1/answer\" does not belong"));
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let damaged = "the bundle is damaged (more bytes than there should be): \
                   get it again from where it came from";
    let valid = valid();
    for more in [
        &b"x"[..],
        &valid,
        &pack(b""),
        &[0; 512],
        b"\x50\x2a\x4d\x18\0\0\0\0",
    ] {
        assert_eq!(error(&[&valid, more].concat()), damaged);
    }
    let mut in_tar = tar(&entries());
    in_tar.extend([0; 5000]);
    in_tar.push(1);
    assert_eq!(error(&pack(&in_tar)), damaged);
}

#[test]
fn a_bundle_cut_anywhere_is_refused() {
    let valid = valid();
    for length in 0..valid.len() {
        let message = error(&valid[..length]);
        let expected = if length < 4 {
            "this is not a bundle"
        } else {
            "the bundle is damaged"
        };
        assert!(message.starts_with(expected), "{length}: {message}");
    }
    let whole = tar(&entries());
    for length in (0..whole.len() - 1024).step_by(61) {
        assert_ne!(error(&pack(&whole[..length])), "it was read", "{length}");
    }
}

#[test]
fn a_bundle_with_a_flipped_bit_is_refused() {
    let valid = valid();
    for position in 0..valid.len() {
        let mut bytes = valid.clone();
        bytes[position] ^= 1 << (position % 8);
        // If it can still be read, it is what was written.
        if let Ok(bundle) = Bundle::from_bytes(&bytes) {
            assert!(bundle == sample::bundle(1), "{position}");
        }
    }
}

#[test]
fn other_layouts_and_fields_name_the_version_to_use() {
    let version = env!("CARGO_PKG_VERSION");
    let made_by = |to: &str| format!("\"version\": 4,\n  \"new\": [],\n  \"made_by\": \"{to}\"");
    let own = format!("\"version\": 3,\n  \"made_by\": \"{version}\"");
    assert_eq!(
        error(&edited(0, &own, &made_by("9.9.9"))),
        "the bundle has format 4, and this program knows format 3: \
         use respondent 9.9.9, which made it, or a newer one"
    );
    assert_eq!(
        error(&edited(
            0,
            &own,
            "\"version\": 1,\n  \"made_by\": \"0.0.9\""
        )),
        "the bundle has format 1, and this program knows format 3: \
         use respondent 0.1.0, which reads it"
    );
    assert_eq!(
        error(&edited(
            0,
            &own,
            "\"version\": 2,\n  \"made_by\": \"0.2.0\""
        )),
        "the bundle has format 2, and this program knows format 3: \
         use respondent 0.2.0, which reads it"
    );
    let message = error(&edited(0, &own, &made_by(&"9\\n".repeat(500))));
    assert!(message.len() < 600 && !message.contains('\n'), "{message}");

    let mut entries = entries();
    for (position, from, to) in [
        (0, version, "9.9.9"),
        (1, "\"request_id\"", "\"mood\": \"good\",\n  \"request_id\""),
    ] {
        let text = str::from_utf8(&entries[position].1).unwrap();
        let text = text.replacen(from, to, 1).into_bytes();
        let name = entries[position].0.path_bytes().into_owned();
        entries[position] = (header(&name, text.len(), EntryType::Regular), text);
    }
    let message = error(&pack(&tar(&entries)));
    assert!(
        message.starts_with(
            "turns/1/turn.json contains something that this program does not understand (unknown field `mood`"
        ) && message.ends_with("use respondent 9.9.9, which made the bundle"),
        "{message}"
    );
    let message = error(&edited(
        1,
        "\"request_id\"",
        "\"mood\": \"good\", \"request_id\"",
    ));
    assert!(
        message.starts_with("the bundle is damaged (turns/1/turn.json: unknown field"),
        "{message}"
    );
}

#[test]
fn impossible_metadata_is_refused() {
    for (from, to, what) in [
        (
            "1400000,\n        59",
            "1400000,\n        159",
            "the pieces of an answer are not as long as the answer",
        ),
        ("1400000,", "172800000001,", "a time in it is too long"),
        (
            "\"took_us\": 2500000",
            "\"took_us\": 172800000001",
            "a time in it is too long",
        ),
        (
            "\"down_ms\": 0",
            "\"down_ms\": 3153600000001",
            "a time in it is too long",
        ),
        (
            "\"idle\": \"300000ms\"",
            "\"idle\": \"876001h\"",
            "a time in it is too long",
        ),
        ("1786082704\n", "253402300800\n", "a time in it is too long"),
        (
            "\"secs\": 1,",
            "\"secs\": 3153600001,",
            "a time in it is too long",
        ),
        (
            "\"input\": 30",
            "\"input\": 1125899906842625",
            "a count of tokens is too large",
        ),
        ("\"key\": 1", "\"key\": 10001", "a list in it is too long"),
        (
            "\"status\": 429",
            "\"status\": 199",
            "a status in it is not a final one",
        ),
        (
            "\"status\": 200",
            "\"status\": 1000",
            "a status in it is not a final one",
        ),
        (
            "\"00112233445566778899aabbccddeeff\"",
            "\"0011\"",
            "a random value in it cannot be read",
        ),
        (
            "\"bytes_per_token\": 2.7",
            "\"bytes_per_token\": -1.0",
            "its bytes per token are not a number",
        ),
        (
            "\"omitted\": []",
            "\"omitted\": [{\"what\": \"attempt 3 answer\", \"total\": 9, \"kept\": 0}]",
            "it lacks a part that no turn has",
        ),
        (
            "\"omitted\": []",
            "\"omitted\": [{\"what\": \"request\", \"total\": 99, \"kept\": 3}]",
            "what it says about an incomplete part is wrong",
        ),
    ] {
        assert_eq!(
            error(&edited(1, from, to)),
            format!("turn 1 contradicts itself ({what}): make the bundle again"),
            "{to}"
        );
    }
    let headers = format!(
        "\"notes\": [{}\n    [\"a\", \"b\"],",
        "[\"a\", \"b\"],".repeat(10_000)
    );
    assert!(error(&edited(1, "\"notes\": [", &headers)).contains("(a list in it is too long)"));
}

#[test]
fn a_bundle_that_could_not_be_read_is_not_written() {
    let message = |change: fn(&mut Bundle)| {
        let mut bundle = sample::bundle(1);
        change(&mut bundle);
        bundle.to_bytes().map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        message(|it| it.turns.clear()),
        "the bundle contains no turn: make another one"
    );
    assert_eq!(
        message(|it| it.turns = vec![BundleTurn::default(); 1001]),
        "the bundle is too large (its turns are more than 1000): put fewer turns into it"
    );
    assert_eq!(
        message(|it| it.turns[0].attempts[0].bytes_per_token = f32::NAN),
        "turn 1 contradicts itself (its bytes per token are not a number): make the bundle again"
    );
    assert_eq!(
        message(|it| it.turns[0].answer.body.clear()),
        "turn 1 contradicts itself (the pieces of an answer are not as long as the answer): \
         make the bundle again"
    );
}

/// Some bytes followed by ten gigabytes of zeros, as a zstd frame of RLE blocks
/// (RFC 8878, 3.1.1.2).
fn bomb(start: &[u8]) -> Vec<u8> {
    const MOST: usize = 128 << 10;
    let block = |kind: usize, size: usize| (size << 3 | kind << 1).to_le_bytes();
    // A window of 1 MiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x50];
    for chunk in start.chunks(MOST) {
        frame.extend(&block(0, chunk.len())[..3]);
        frame.extend(chunk);
    }
    for _ in 0..(10_usize << 30) / MOST {
        frame.extend(&block(1, MOST)[..3]);
        frame.push(0);
    }
    frame.extend([1, 0, 0]);
    frame
}

#[test]
fn bombs_stop_at_a_limit() {
    assert!(bomb(b"").len() < 400_000);
    assert!(error(&bomb(b"")).starts_with("this is not a bundle"));
    for (limit, name) in [(65_536, "bundle.json"), (67_108_864, "turns/1/turn.json")] {
        let mut start = tar(&entries()[..1]);
        start.truncate(if name == "bundle.json" {
            0
        } else {
            start.len() - 1024
        });
        let header = header(name.as_bytes(), 1 << 30, EntryType::Regular);
        start.extend(header.as_bytes());
        assert_eq!(
            error(&bomb(&start)),
            format!(
                "the bundle is too large (the bytes of an entry are more than {limit}): \
                 put fewer turns into it"
            )
        );
    }
    assert!(error(&bomb(&tar(&entries()))).contains("(more bytes than there should be)"));
}

#[test]
fn the_size_limit_counts_all_entries() {
    let (bytes, size) = (valid(), tar(&entries()).len() as u64);
    assert!(Bundle::from_bytes_limited(&bytes, size).is_ok());
    let mut start = tar(&entries()[..2]);
    start.truncate(start.len() - 1024);
    start.extend(header(b"turns/1/request.json", 500 << 20, EntryType::Regular).as_bytes());
    for bytes in [bytes, bomb(&start)] {
        let message = Bundle::from_bytes_limited(&bytes, size - 1)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(
            message.to_string(),
            format!(
                "the bundle is too large (the bytes in it are more than {}): put fewer turns into it",
                size - 1
            )
        );
    }
}

#[test]
fn a_flood_of_entries_stops_at_the_first_that_is_too_many() {
    let mut flood = tar(&entries());
    flood.truncate(flood.len() - 1024);
    let one = header(b"turns/2/turn.json", 0, EntryType::Regular);
    flood.extend(one.as_bytes().repeat(100_000));
    let message = error(&pack(&flood));
    assert!(
        message.starts_with("\"turns/2/turn.json\" does not belong in a bundle"),
        "{message}"
    );
    let many = edited(0, "\"turns\": 1\n", "\"turns\": 1000000\n");
    assert_eq!(
        error(&many),
        "the bundle is too large (its turns are more than 1000): put fewer turns into it"
    );
}

#[test]
fn a_window_beyond_the_limit_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(MAX_WINDOW_LOG + 1).unwrap();
    encoder.write_all(&tar(&entries())).unwrap();
    let message = error(&encoder.finish().unwrap());
    assert!(message.contains("too much memory"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Random changes to the file, or to the tar in it.
    #[test]
    fn no_changed_file_is_read_as_something_else(
        in_tar: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..6),
    ) {
        let mut bytes = if in_tar { tar(&entries()) } else { valid() };
        for (position, kind, byte) in changes {
            let position = position.index(bytes.len());
            match kind {
                0 => bytes[position] = byte,
                1 => bytes.insert(position, byte),
                2 => drop(bytes.drain(position..(position + 1 + usize::from(byte)).min(bytes.len()))),
                _ => {
                    let end = (position + usize::from(byte)).min(bytes.len());
                    let copy = bytes[position..end].to_vec();
                    bytes.splice(position..position, copy);
                }
            }
            prop_assume!(!bytes.is_empty());
        }
        let bytes = if in_tar { pack(&bytes) } else { bytes };
        if let Ok(bundle) = Bundle::from_bytes(&bytes) {
            // The repacked tar has no checksum, so a text may have changed; the
            // result is a valid bundle all the same.
            prop_assert!(in_tar || bundle == sample::bundle(1));
            let again = bundle.to_bytes().unwrap();
            prop_assert!(Bundle::from_bytes(&again).unwrap() == bundle);
        }
    }
}
