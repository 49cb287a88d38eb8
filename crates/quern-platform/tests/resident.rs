//! What this process holds, measured. One test alone in its process: a neighbour's memory would be counted too.
#![cfg(target_os = "linux")]

use quern_platform::{AlignedBytes, current_rss, memory_facts, peak_rss};

const MIB: u64 = 1 << 20;

#[test]
fn memory_is_counted_while_held_and_goes_back_when_freed() {
    let before = current_rss().expect("resident size");
    let mut held = AlignedBytes::zeroed(64 << 20).expect("64 MiB");
    assert!(current_rss().expect("resident size") < before + 16 * MIB, "reserving must not touch the pages");
    held.as_mut_slice().fill(1);
    assert!(current_rss().expect("resident size") >= before + 60 * MIB);
    drop(held);
    for _ in 0..10 {
        AlignedBytes::zeroed(64 << 20).expect("64 MiB").as_mut_slice().fill(1);
    }
    assert!(current_rss().expect("resident size") < before + 16 * MIB, "freed memory was kept");

    let peak = peak_rss().expect("peak");
    assert!(peak >= before + 60 * MIB && peak < before + 200 * MIB);
    let facts = memory_facts();
    assert!(facts.available <= facts.total && facts.total > Some(MIB));
}
