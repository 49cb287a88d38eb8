//! Damaged copies of a real model, through the binary. The library's own test (crates/quern/tests/damage.rs) goes through
//! every place; these few show that the command turns what it finds into one line and a documented code.

use crate::common::{DEMO, Ran, model, quern, text};
use std::fs::File;
use std::io::{Read, Write};

/// Where the demo model's tensors begin.
const HEADER: usize = 1_785_664;

/// Ends with 0, 1 or 2; says one line if it is not 0; panics never.
fn ends_well(ran: &Ran, what: &str) {
    let stderr = ran.stderr();
    assert!(matches!(ran.code(), Some(0..=2)), "{what}: {:?} {stderr}", ran.code());
    if ran.code() != Some(0) {
        assert!(stderr.lines().count() == 1 && stderr.starts_with("quern: error: "), "{what}: {stderr}");
        assert!(stderr.len() < 1000, "{what}: {stderr}");
    }
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
}

#[test]
fn r50_damaged_headers_end_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.gguf");
    let mut header = vec![0; HEADER];
    File::open(model(DEMO)).unwrap().read_exact(&mut header).unwrap();
    let len = std::fs::metadata(model(DEMO)).unwrap().len();
    // The tensors are a hole in the file: zeros, which load and run.
    let write = |bytes: &[u8], len: u64| {
        let mut file = File::create(&path).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(len).unwrap();
    };
    let run = ["run", &text(&path), "Hi", "--raw", "-n", "1", "--temp", "0"];
    write(&header, len);
    assert_eq!(quern(&run).code(), Some(0), "the undamaged copy runs");

    let mut refused = 0;
    let places = (0..24).chain([64, 4096, 300_000, 900_000]).chain((HEADER - 20_000..HEADER).step_by(1777));
    for place in places {
        let mut damaged = header.clone();
        damaged[place] ^= 0xff;
        write(&damaged, len);
        let ran = quern(&run);
        ends_well(&ran, &format!("byte {place}"));
        refused += usize::from(ran.code() == Some(2));
    }
    assert!(refused >= 20, "{refused}: every byte of the counts matters");

    for cut in [0, 3, 24, 5000, HEADER / 2, HEADER - 1] {
        write(&header[..cut], cut as u64);
        for args in [&run[..], &["inspect", &text(&path)]] {
            let ran = quern(args);
            ends_well(&ran, &format!("cut at {cut}"));
            assert_eq!(ran.code(), Some(2), "cut at {cut}");
        }
    }
    write(&header, len - 1);
    assert!(quern(&run).refused().contains("truncated"));
}
