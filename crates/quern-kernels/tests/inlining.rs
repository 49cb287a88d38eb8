//! No vector instruction is behind a call.
//!
//! An intrinsic that is not inlined passes its vectors through memory. The bits stay right and the kernel takes half as
//! long again, which no other test would show.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use object::{Object, ObjectSymbol, SymbolKind};

#[test]
fn every_intrinsic_is_inlined() {
    // Named, so that every kernel is in this binary.
    std::hint::black_box(quern_kernels::formats::FORMATS);
    std::hint::black_box([
        quern_kernels::linear::linear as *const (),
        quern_kernels::attention::attend as *const (),
        quern_kernels::recurrent::delta_rule as *const (),
        quern_kernels::norm::rms_norm as *const (),
    ]);
    let binary = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*binary).unwrap();
    let functions: Vec<_> =
        file.symbols().filter(|s| s.kind() == SymbolKind::Text).filter_map(|s| s.name().ok()).collect();
    let has =
        |parts: &[&str]| functions.iter().filter(|name| parts.iter().all(|part| name.contains(part))).count();
    assert!(has(&["quern_kernels", "avx2", "enter"]) > 30, "the kernels are not in this binary");
    let behind_calls: Vec<_> =
        functions.iter().filter(|name| name.contains("core_arch") && name.contains("_mm")).collect();
    assert!(behind_calls.is_empty(), "{behind_calls:?}");
}
