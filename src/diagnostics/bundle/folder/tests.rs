use std::os::unix::fs::symlink;

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::sample;
use super::*;

const ALL: RetentionLimits = RetentionLimits {
    files: 100,
    bytes: 1 << 20,
    age: Duration::from_hours(24),
};

/// A bundle folder inside a temporary folder, and a time soon after the sample turns.
struct TestFolder {
    parent: TempDir,
    now: SystemTime,
}

impl TestFolder {
    fn new() -> Self {
        Self {
            parent: tempfile::tempdir().unwrap(),
            now: UNIX_EPOCH + Duration::from_secs(1_786_082_704 + 600),
        }
    }

    fn path(&self) -> PathBuf {
        self.parent.path().join("data/bundles")
    }

    fn folder(&self, limits: RetentionLimits) -> BundleFolder {
        BundleFolder::new(self.path(), limits)
    }

    /// Stores the sample turns with these numbers, `bytes` bytes each.
    fn put(&self, folder: &BundleFolder, numbers: &[usize], bytes: usize) {
        for number in numbers {
            let turn = sample::turn(*number);
            folder.write(&turn, &vec![b'x'; bytes], self.now).unwrap();
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn numbers(kept: &[StoredBundle]) -> Vec<usize> {
    kept.iter()
        .map(|it| usize::from_str_radix(it.request_id.trim_start_matches("req_"), 16).unwrap())
        .collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Sets the modification time of a file.
fn age(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn a_turn_is_a_file_that_its_owner_alone_reads() {
    let test = TestFolder::new();
    let folder = test.folder(ALL);
    let path = folder.write(&sample::turn(1), b"bundle", test.now).unwrap();
    let name = "20260807-060505-req_00000000000000000000000000000001.tar.zst";
    assert_eq!(path, test.path().join(name));
    assert_eq!(fs::read(&path).unwrap(), b"bundle");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&test.path()), 0o700);
    assert_eq!(test.names(), [name]);
}

/// The umask belongs to the process, so another process runs the test above.
#[test]
fn no_umask_opens_it_to_others() {
    let name = "diagnostics::bundle::folder::tests::a_turn_is_a_file_that_its_owner_alone_reads";
    let test = std::env::current_exe().unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", "umask 000; exec \"$0\" --exact \"$1\""])
        .args([test.as_os_str(), name.as_ref()])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn modes_that_were_there_before_do_not_count() {
    let test = TestFolder::new();
    fs::create_dir_all(test.path()).unwrap();
    fs::set_permissions(test.path(), Permissions::from_mode(0o777)).unwrap();
    let folder = test.folder(ALL);
    let path = folder.write(&sample::turn(1), b"one", test.now).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    folder.write(&sample::turn(1), b"two", test.now).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&test.path()), 0o700);
    assert_eq!(fs::read(&path).unwrap(), b"two");
}

#[test]
fn the_newest_is_listed_first() {
    let test = TestFolder::new();
    let folder = test.folder(ALL);
    assert_eq!(folder.list().unwrap(), []);
    test.put(&folder, &[2, 5, 1, 4], 10);
    assert_eq!(numbers(&folder.list().unwrap()), [5, 4, 2, 1]);
}

#[test]
fn within_a_second_the_last_written_is_the_newest() {
    let test = TestFolder::new();
    let folder = test.folder(ALL);
    for (id, written) in [("req_b", 2), ("req_a", 1), ("req_c", 3)] {
        let turn = BundleTurn {
            request_id: id.into(),
            ..sample::turn(1)
        };
        let path = folder.write(&turn, b"x", test.now).unwrap();
        age(&path, test.now + Duration::from_millis(written));
    }
    let ids: Vec<String> = folder
        .list()
        .unwrap()
        .into_iter()
        .map(|it| it.request_id)
        .collect();
    assert_eq!(ids, ["req_c", "req_b", "req_a"]);
}

#[test]
fn the_oldest_are_deleted_beyond_each_limit() {
    for (limits, left) in [
        (RetentionLimits { files: 2, ..ALL }, vec![4, 3]),
        (RetentionLimits { bytes: 39, ..ALL }, vec![4, 3, 2]),
        (RetentionLimits { bytes: 40, ..ALL }, vec![4, 3, 2, 1]),
        // 600 seconds later, turns 1 and 2 are 599 and 598 seconds old.
        (
            RetentionLimits {
                age: Duration::from_secs(597),
                ..ALL
            },
            vec![4, 3],
        ),
    ] {
        let test = TestFolder::new();
        test.put(&test.folder(ALL), &[1, 2, 3, 4], 10);
        let folder = test.folder(limits);
        folder.prune(test.now).unwrap();
        assert_eq!(numbers(&folder.list().unwrap()), left, "{limits:?}");
        folder
            .write(&sample::turn(5), &[b'x'; 10], test.now)
            .unwrap();
        let kept = folder.list().unwrap();
        assert!(kept.len() <= limits.files, "{limits:?}");
        assert!(kept.iter().map(|it| it.bytes).sum::<u64>() <= limits.bytes);
        assert_eq!(numbers(&kept).first(), Some(&5));
    }
}

#[test]
fn a_bundle_beyond_the_size_limit_is_refused_and_replaces_no_other() {
    let test = TestFolder::new();
    let folder = test.folder(RetentionLimits { bytes: 25, ..ALL });
    test.put(&folder, &[1, 2], 10);
    let error = folder
        .write(&sample::turn(3), &[0; 26], test.now)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the bundle has 26 bytes, and 25 may be kept"
    );
    assert_eq!(numbers(&folder.list().unwrap()), [2, 1]);
}

#[test]
fn files_of_others_stay() {
    let test = TestFolder::new();
    let folder = test.folder(RetentionLimits { files: 0, ..ALL });
    fs::create_dir_all(test.path()).unwrap();
    let others = [
        "20260807-060505.tar.zst",
        "20260807-060505-.tar.zst",
        "20260807-060505-req_1.tar",
        "20260807-060505-req 1.tar.zst",
        "20260807-060505-req_1.tar.zst.bak",
        "20261307-060505-req_1.tar.zst",
        "20260807_060505-req_1.tar.zst",
        "mine.tar.zst",
        "notes.part",
        "é0260807-060505-req_1.tar.zst",
    ];
    for name in others {
        let path = test.path().join(name);
        fs::write(&path, b"x").unwrap();
        age(&path, UNIX_EPOCH);
    }
    fs::create_dir(test.path().join("20260807-060505-req_2.tar.zst")).unwrap();
    folder.prune(test.now).unwrap();
    assert_eq!(test.names().len(), others.len() + 1);
    assert_eq!(folder.list().unwrap(), []);
}

#[test]
fn unfinished_files_are_deleted_after_an_hour() {
    let test = TestFolder::new();
    let folder = test.folder(ALL);
    fs::create_dir_all(test.path()).unwrap();
    for (name, minutes) in [("req_old", 61), ("req_new", 59)] {
        let path = test
            .path()
            .join(format!("20260807-060505-{name}.tar.zst.part"));
        fs::write(&path, b"half").unwrap();
        age(&path, test.now - Duration::from_mins(minutes));
    }
    assert_eq!(folder.list().unwrap(), []);
    folder.prune(test.now).unwrap();
    assert_eq!(test.names(), ["20260807-060505-req_new.tar.zst.part"]);
}

#[test]
fn an_unfinished_file_is_replaced_by_its_own_turn() {
    let test = TestFolder::new();
    let folder = test.folder(ALL);
    let path = folder.write(&sample::turn(1), b"whole", test.now).unwrap();
    let mut half = path.clone().into_os_string();
    half.push(".part");
    fs::write(&half, b"half").unwrap();
    folder.write(&sample::turn(1), b"again", test.now).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"again");
    assert!(!Path::new(&half).exists());
}

#[test]
fn a_deleted_folder_is_created_again() {
    let test = TestFolder::new();
    let folder = test.folder(ALL);
    test.put(&folder, &[1], 10);
    fs::remove_dir_all(test.path()).unwrap();
    folder.prune(test.now).unwrap();
    assert_eq!(folder.list().unwrap(), []);
    test.put(&folder, &[2], 10);
    assert_eq!(numbers(&folder.list().unwrap()), [2]);
}

#[test]
fn links_are_not_followed() {
    let test = TestFolder::new();
    let (folder, other) = (test.folder(ALL), test.parent.path().join("other"));
    let path = folder.write(&sample::turn(1), b"one", test.now).unwrap();
    let mut half = path.clone().into_os_string();
    half.push(".part");
    fs::remove_file(&path).unwrap();
    fs::write(&other, b"mine").unwrap();
    symlink(&other, &path).unwrap();
    symlink(&other, &half).unwrap();
    assert_eq!(folder.list().unwrap(), []);
    folder.write(&sample::turn(1), b"two", test.now).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"mine");
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn a_link_or_a_file_in_the_place_of_the_folder_is_refused() {
    let test = TestFolder::new();
    let elsewhere = test.parent.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o755)).unwrap();
    let (link, file) = (
        test.parent.path().join("link"),
        test.parent.path().join("file"),
    );
    symlink(&elsewhere, &link).unwrap();
    fs::write(&file, b"mine").unwrap();
    for path in [link, file] {
        let folder = BundleFolder::new(&path, ALL);
        let error = folder.write(&sample::turn(1), b"x", test.now).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} is not a folder", path.display())
        );
        assert!(folder.list().is_err());
        assert!(folder.prune(test.now).is_err());
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(mode(&elsewhere), 0o755);
    assert_eq!(fs::read(test.parent.path().join("file")).unwrap(), b"mine");
}

#[test]
fn nothing_is_left_of_a_file_that_could_not_be_finished() {
    let test = TestFolder::new();
    let folder = test.folder(ALL);
    let path = folder.write(&sample::turn(1), b"x", test.now).unwrap();
    fs::remove_file(&path).unwrap();
    // A rename cannot replace a folder that is not empty.
    fs::create_dir_all(path.join("full")).unwrap();
    assert!(folder.write(&sample::turn(1), b"x", test.now).is_err());
    assert_eq!(test.names().len(), 1);
}

proptest! {
    #[test]
    fn no_id_leaves_the_folder(id in "(?s).{0,120}") {
        let turn = BundleTurn { request_id: id.clone(), ..sample::turn(1) };
        let name = file_name(&turn);
        prop_assert!(!name.contains('/') && !name.contains('\0') && name.len() < 200);
        let (_, found) = parse_file_name(&name).unwrap();
        prop_assert_eq!(found, sanitized_id(&id));
    }
}
