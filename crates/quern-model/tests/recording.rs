//! A backend that records every call and hides its buffers: the forward pass uses nothing but the trait.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Run, SEQ, backend, fixture, load, logits};
use quern_backend::*;
use quern_cpu::{CpuBackend, CpuBuf, CpuWeight};
use quern_gguf::Gguf;
use quern_kernels::kv::KvPage;
use quern_model::{Mixer, Model, States, Workspace};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex};

struct Recording {
    inner: Arc<CpuBackend>,
    calls: Mutex<Vec<&'static str>>,
    /// Refuse the products from this many on.
    products_left: Mutex<Option<usize>>,
}

/// Opaque: nothing outside this file can see the values.
struct Hidden(CpuBuf);

impl Recording {
    fn new() -> Arc<Recording> {
        let inner = backend(Run::default());
        Arc::new(Recording { inner, calls: Mutex::default(), products_left: Mutex::default() })
    }

    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Backend for Recording {
    type Buf = Hidden;
    type Weight = CpuWeight;
    type Page = KvPage;

    fn contract(&self) -> Contract {
        self.inner.contract()
    }
    fn name(&self) -> String {
        "recording".into()
    }
    fn weight(&self, tensor: &Tensor, uses: WeightUse) -> Result<CpuWeight, BackendError> {
        self.inner.weight(tensor, uses)
    }
    fn weight_bytes(&self, weight: &CpuWeight) -> usize {
        self.inner.weight_bytes(weight)
    }
    fn alloc(&self, len: usize) -> Hidden {
        Hidden(self.inner.alloc(len))
    }
    fn capacity(&self, buf: &Hidden) -> usize {
        self.inner.capacity(&buf.0)
    }
    fn write(&self, out: &mut Hidden, values: &[f32]) {
        self.inner.write(&mut out.0, values);
    }
    fn read<'a>(&self, buf: &'a Hidden, range: Range<usize>) -> Cow<'a, [f32]> {
        self.note("read");
        self.inner.read(&buf.0, range)
    }
    fn embed(&self, out: &mut Hidden, weight: &CpuWeight, ids: &[u32], scale: f32) {
        self.note("embed");
        self.inner.embed(&mut out.0, weight, ids, scale);
    }
    fn linear(
        &self,
        x: &Hidden,
        rows: usize,
        products: &mut [Product<'_, Self>],
    ) -> Result<(), BackendError> {
        if let Some(left) = &mut *self.products_left.lock().unwrap() {
            *left = left.checked_sub(1).ok_or(BackendError::NonFinite { row: 0 })?;
        }
        self.note(["", "linear", "linear 2", "linear 3", "linear 4"][products.len()]);
        let mut products: Vec<_> = products
            .iter_mut()
            .map(|p| Product::<CpuBackend> {
                weight: p.weight,
                scale: p.scale,
                bias: p.bias.map(|b| &b.0),
                out: &mut p.out.0,
            })
            .collect();
        self.inner.linear(&x.0, rows, &mut products)
    }
    fn rms_norm(&self, out: &mut Hidden, x: &Hidden, weight: &Hidden, rows: usize, eps: f32) {
        self.note("norm");
        self.inner.rms_norm(&mut out.0, &x.0, &weight.0, rows, eps);
    }
    fn rope(&self, x: &mut Hidden, table: &Hidden, rows: usize, shape: RopeShape) {
        self.note("rope");
        self.inner.rope(&mut x.0, &table.0, rows, shape);
    }
    fn act_mul(&self, activation: Activation, out: &mut Hidden, gate: &Hidden, up: &Hidden, len: usize) {
        self.note("act_mul");
        self.inner.act_mul(activation, &mut out.0, &gate.0, &up.0, len);
    }
    fn add(&self, x: &mut Hidden, y: &Hidden, len: usize) {
        self.note("add");
        self.inner.add(&mut x.0, &y.0, len);
    }
    fn softcap(&self, x: &mut Hidden, cap: f32, len: usize) {
        self.note("softcap");
        self.inner.softcap(&mut x.0, cap, len);
    }
    fn gather(&self, out: &mut Hidden, x: &Hidden, rows: &[u32], cols: usize) {
        self.note("gather");
        self.inner.gather(&mut out.0, &x.0, rows, cols);
    }
    fn copy(&self, out: &mut Hidden, x: &Hidden, len: usize) {
        self.note("copy");
        self.inner.copy(&mut out.0, &x.0, len);
    }
    fn short_conv(
        &self,
        out: &mut Hidden,
        x: &Hidden,
        weight: &Hidden,
        state: &mut Hidden,
        shape: ConvShape,
        rows: Range<usize>,
    ) {
        self.note("short_conv");
        self.inner.short_conv(&mut out.0, &x.0, &weight.0, &mut state.0, shape, rows);
    }
    fn delta_gates(&self, alpha: &mut Hidden, beta: &mut Hidden, a: &Hidden, dt_bias: &Hidden, rows: usize) {
        self.note("delta_gates");
        self.inner.delta_gates(&mut alpha.0, &mut beta.0, &a.0, &dt_bias.0, rows);
    }
    fn delta_rule(
        &self,
        out: &mut Hidden,
        inputs: DeltaRows<'_, Self>,
        state: &mut Hidden,
        shape: DeltaShape,
        rows: Range<usize>,
    ) {
        self.note("delta_rule");
        let inputs = DeltaRows { qkv: &mut inputs.qkv.0, decay: &inputs.decay.0, rate: &inputs.rate.0 };
        self.inner.delta_rule(&mut out.0, inputs, &mut state.0, shape, rows);
    }
    fn page(&self, shape: KvShape) -> KvPage {
        self.inner.page(shape)
    }
    fn copy_page(&self, page: &KvPage) -> KvPage {
        self.inner.copy_page(page)
    }
    fn store_kv(&self, page: &mut KvPage, slot: usize, k: &Hidden, v: &Hidden, rows: Range<usize>) {
        self.note("store_kv");
        self.inner.store_kv(page, slot, &k.0, &v.0, rows);
    }
    fn attend(
        &self,
        out: &mut Hidden,
        q: &Hidden,
        shape: AttendShape,
        segments: &[AttendSegment<'_, KvPage>],
    ) {
        self.note("attend");
        self.inner.attend(&mut out.0, &q.0, shape, segments);
    }
}

#[test]
fn the_forward_pass_is_made_of_the_traits_operations() {
    let layer_llama = [
        "norm", "linear 3", "rope", "rope", "store_kv", "attend", "linear", "add", "norm", "linear 2",
        "act_mul", "linear", "add",
    ];
    let layer_gemma3 = [
        "norm", "linear 3", "norm", "norm", "rope", "rope", "store_kv", "attend", "linear", "norm", "add",
        "norm", "linear 2", "act_mul", "linear", "norm", "add",
    ];
    let layer_gated = [
        "norm", "linear 4", "norm", "norm", "rope", "rope", "store_kv", "attend", "act_mul", "linear", "add",
        "norm", "linear 2", "act_mul", "linear", "add",
    ];
    let layer_delta_net = [
        "norm",
        "linear 4",
        "delta_gates",
        "short_conv",
        "delta_rule",
        "norm",
        "act_mul",
        "linear",
        "add",
        "norm",
        "linear 2",
        "act_mul",
        "linear",
        "add",
    ];
    for (name, attention) in [
        ("tiny/llama-full.gguf", &layer_llama[..]),
        ("tiny/gemma3-window.gguf", &layer_gemma3[..]),
        ("tiny/qwen35.gguf", &layer_gated[..]),
    ] {
        let run = Run::default();
        let recording = Recording::new();
        let file = Arc::new(Gguf::open(fixture(name)).unwrap());
        let model = Model::load(recording.clone(), &file, &mut |_, _| {}).unwrap();
        let mut states = States::default();
        states.insert(SEQ, model.sequence(run.kv, 64));
        let mut ws = Workspace::new(&model, 8);
        recording.calls.lock().unwrap().clear();
        model.forward(&mut ws, &Batch::single(SEQ, &[1, 2, 3], 0, Want::Last), &mut states).unwrap();
        let mut expected = vec!["embed"];
        model.spec().layers.iter().for_each(|layer| match layer.mixer {
            Mixer::Attention(_) => expected.extend(attention),
            Mixer::DeltaNet(_) => expected.extend(layer_delta_net),
        });
        expected.extend(["gather", "norm", "linear"]);
        assert_eq!(*recording.calls.lock().unwrap(), expected, "{name}");

        let through_cpu = logits(&load(&fixture(name), run), run, &[1, 2, 3]);
        let n_vocab = model.spec().n_vocab;
        assert_eq!(&*ws.logits(&model), &through_cpu[2 * n_vocab..], "{name}");
    }
}

/// A batch that fails half-way has told attention layers nothing that the next batch would not write over, and recurrent
/// ones something that cannot be taken back: such a sequence is refused until it begins again.
#[test]
fn a_failed_batch_leaves_no_trace() {
    for (name, recurrent) in [("tiny/llama-full.gguf", false), ("tiny/qwen35.gguf", true)] {
        let run = Run::default();
        let recording = Recording::new();
        let file = Arc::new(Gguf::open(fixture(name)).unwrap());
        let model = Model::load(recording.clone(), &file, &mut |_, _| {}).unwrap();
        let mut states = States::default();
        states.insert(SEQ, model.sequence(run.kv, 64));
        let mut ws = Workspace::new(&model, 8);
        let mut feed = |tokens: &[u32], states: &mut States<Recording>| {
            let first = states.get(SEQ).unwrap().len() as u32;
            let done = model.forward(&mut ws, &Batch::single(SEQ, tokens, first, Want::Last), states);
            done.map(|()| ws.logits(&model).into_owned())
        };
        feed(&[1, 2, 3], &mut states).unwrap();
        *recording.products_left.lock().unwrap() = Some(5);
        feed(&[9, 8], &mut states).unwrap_err();
        *recording.products_left.lock().unwrap() = None;
        assert_eq!(states.get(SEQ).unwrap().len(), 3);
        if recurrent {
            let refusal = feed(&[4], &mut states).unwrap_err().to_string();
            assert!(refusal.contains("begin again"), "{refusal}");
            let mut state = states.remove(SEQ).unwrap();
            assert!(state.truncate(&recording, 0));
            states.insert(SEQ, state);
            feed(&[1, 2, 3], &mut states).unwrap();
        }
        let got = feed(&[4], &mut states).unwrap();
        let whole = logits(&load(&fixture(name), run), run, &[1, 2, 3, 4]);
        assert_eq!(got, whole[3 * model.spec().n_vocab..], "{name}");
    }
}
