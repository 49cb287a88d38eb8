//! The CPU backend: the `Backend` trait over quern-kernels.
//!
//! It holds no arithmetic of its own; it owns the pool, packs weights into tiles at load, and keeps the prepared
//! activations of the last input, so that products which share it convert it once.

use quern_backend::{
    Activation, AttendSegment, AttendShape, Backend, BackendError, Contract, ConvShape, DeltaRows,
    DeltaShape, KvShape, NUMERICS, Product, RopeShape, Tensor, WeightUse,
};
use quern_kernels::activations::{Activations, Forms};
use quern_kernels::isa::{IsaError, Level};
use quern_kernels::kv::KvPage;
use quern_kernels::linear::{PackedMatrix, linear};
use quern_kernels::pool::Pool;
use quern_kernels::{attention, formats, norm, recurrent, rope};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// How activations meet quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationMode {
    /// Int8 blocks (rule 1): the fast way.
    Q8,
    /// f32 (rule 2): the faithful way.
    F32,
}

impl ActivationMode {
    /// Every one of them.
    pub const ALL: [ActivationMode; 2] = [ActivationMode::Q8, ActivationMode::F32];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ActivationMode::Q8 => "q8",
            ActivationMode::F32 => "f32",
        }
    }
}

/// What a CPU backend is made of.
#[derive(Clone, Debug)]
pub struct CpuOptions {
    /// Threads, the caller's included; None: the physical cores this process may use.
    pub threads: Option<usize>,
    /// Activation mode.
    pub activations: ActivationMode,
    /// Instruction set; None: the best there is, or what `QUERN_ISA` names.
    pub level: Option<Level>,
}

impl Default for CpuOptions {
    fn default() -> Self {
        CpuOptions { threads: None, activations: ActivationMode::Q8, level: None }
    }
}

/// Why a CPU backend cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The instruction set asked for.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// A thread count the pool cannot have.
    #[error("{0} threads: the pool takes 1 to {max}", max = quern_kernels::pool::MAX_THREADS)]
    Threads(usize),
}

/// The CPU.
pub struct CpuBackend {
    pool: Arc<Pool>,
    level: Level,
    activations: ActivationMode,
    /// Prepared inputs; held for the length of one `linear`.
    prepared: Mutex<Activations>,
}

/// Host memory.
pub struct CpuBuf(Vec<f32>);

/// A weight: packed for products, its raw rows for look-ups, or both.
pub struct CpuWeight {
    packed: Option<PackedMatrix>,
    rows: Option<Tensor>,
}

impl CpuBackend {
    /// Starts the pool.
    pub fn new(options: &CpuOptions) -> Result<CpuBackend, CpuError> {
        let threads = options.threads.unwrap_or_else(quern_platform::available_cpus);
        if threads == 0 || threads > quern_kernels::pool::MAX_THREADS {
            return Err(CpuError::Threads(threads));
        }
        let level = options.level.map_or_else(Level::detect, Ok)?;
        Ok(CpuBackend {
            pool: Arc::new(Pool::new(threads)),
            level,
            activations: options.activations,
            prepared: Mutex::new(Activations::default()),
        })
    }

    /// Threads in the pool.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The instruction set in force.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The activation mode in force.
    pub fn activations(&self) -> ActivationMode {
        self.activations
    }

    fn int8(&self) -> bool {
        self.activations == ActivationMode::Q8
    }
}

impl Backend for CpuBackend {
    type Buf = CpuBuf;
    type Weight = CpuWeight;
    type Page = KvPage;

    fn contract(&self) -> Contract {
        Contract::Exact { numerics: NUMERICS }
    }

    fn name(&self) -> String {
        format!("cpu ({}, {} threads)", self.level.name(), self.threads())
    }

    fn weight(&self, tensor: &Tensor, uses: WeightUse) -> Result<CpuWeight, BackendError> {
        let refuse = |reason: String| BackendError::Tensor { name: tensor.name.clone(), reason };
        let packed = match uses {
            WeightUse::Embedding => None,
            WeightUse::Linear | WeightUse::Tied => {
                let packed = PackedMatrix::pack(
                    &self.pool,
                    tensor.ty,
                    tensor.n_rows,
                    tensor.n_cols,
                    tensor.data.bytes(),
                );
                Some(packed.map_err(|e| refuse(e.to_string()))?)
            }
        };
        let rows = match uses {
            WeightUse::Linear => None,
            WeightUse::Embedding | WeightUse::Tied => {
                if formats::format(tensor.ty).is_none() {
                    return Err(refuse(format!("type {} has no kernels yet", tensor.ty.name())));
                }
                Some(tensor.clone())
            }
        };
        tensor.data.release();
        Ok(CpuWeight { packed, rows })
    }

    fn weight_bytes(&self, weight: &CpuWeight) -> usize {
        weight.packed.as_ref().map_or(0, PackedMatrix::n_bytes)
    }

    fn alloc(&self, len: usize) -> CpuBuf {
        CpuBuf(vec![0.0; len])
    }

    fn capacity(&self, buf: &CpuBuf) -> usize {
        buf.0.len()
    }

    fn write(&self, out: &mut CpuBuf, values: &[f32]) {
        out.0[..values.len()].copy_from_slice(values);
    }

    fn read<'a>(&self, buf: &'a CpuBuf, range: Range<usize>) -> Cow<'a, [f32]> {
        Cow::Borrowed(&buf.0[range])
    }

    fn embed(&self, out: &mut CpuBuf, weight: &CpuWeight, ids: &[u32], scale: f32) {
        let Some(table) = &weight.rows else { panic!("a weight without rows was looked up") };
        let Some(format) = formats::format(table.ty) else {
            panic!("an embedding without a format was bound")
        };
        let row_bytes = format.row_bytes(table.n_cols);
        for (out, id) in out.0.chunks_exact_mut(table.n_cols).zip(ids) {
            let row = &table.data.bytes()[*id as usize * row_bytes..][..row_bytes];
            format.decode_row(row, out);
            if scale != 1.0 {
                out.iter_mut().for_each(|v| *v *= scale);
            }
        }
    }

    fn linear(
        &self,
        x: &CpuBuf,
        rows: usize,
        products: &mut [Product<'_, Self>],
    ) -> Result<(), BackendError> {
        let mut forms = Forms::default();
        let mut packed = Vec::with_capacity(products.len());
        for product in products {
            let Some(weight) = &product.weight.packed else {
                panic!("a weight held for look-ups was multiplied by")
            };
            forms = forms.and(weight.form(rows, self.int8()));
            packed.push(quern_kernels::linear::Product {
                weight,
                scale: product.scale,
                bias: product.bias.map(|b| &b.0[..weight.n_rows()]),
                out: &mut product.out.0[..rows * weight.n_rows()],
            });
        }
        let Some(cols) = packed.first().map(|p| p.weight.n_cols()) else { return Ok(()) };
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared
            .prepare(&self.pool, self.level, &x.0[..rows * cols], cols, forms)
            .map_err(|e| BackendError::NonFinite { row: e.row })?;
        linear(&self.pool, self.level, &prepared, self.int8(), &mut packed);
        Ok(())
    }

    fn rms_norm(&self, out: &mut CpuBuf, x: &CpuBuf, weight: &CpuBuf, rows: usize, eps: f32) {
        let n = rows * weight.0.len();
        norm::rms_norm(&self.pool, self.level, &mut out.0[..n], &x.0[..n], &weight.0, eps);
    }

    fn rope(&self, x: &mut CpuBuf, table: &CpuBuf, rows: usize, shape: RopeShape) {
        let x = &mut x.0[..rows * shape.n_heads * shape.head_dim];
        rope::rope(&self.pool, self.level, x, &table.0[..rows * shape.dims], shape);
    }

    fn act_mul(&self, activation: Activation, out: &mut CpuBuf, gate: &CpuBuf, up: &CpuBuf, len: usize) {
        norm::act_mul(&self.pool, self.level, activation, &mut out.0[..len], &gate.0[..len], &up.0[..len]);
    }

    fn add(&self, x: &mut CpuBuf, y: &CpuBuf, len: usize) {
        norm::add(&self.pool, &mut x.0[..len], &y.0[..len]);
    }

    fn softcap(&self, x: &mut CpuBuf, cap: f32, len: usize) {
        norm::softcap(&self.pool, self.level, &mut x.0[..len], cap);
    }

    fn gather(&self, out: &mut CpuBuf, x: &CpuBuf, rows: &[u32], cols: usize) {
        for (out, row) in out.0.chunks_exact_mut(cols).zip(rows) {
            out.copy_from_slice(&x.0[*row as usize * cols..][..cols]);
        }
    }

    fn copy(&self, out: &mut CpuBuf, x: &CpuBuf, len: usize) {
        out.0[..len].copy_from_slice(&x.0[..len]);
    }

    fn short_conv(
        &self,
        out: &mut CpuBuf,
        x: &CpuBuf,
        weight: &CpuBuf,
        state: &mut CpuBuf,
        shape: ConvShape,
        rows: Range<usize>,
    ) {
        let part = rows.start * shape.channels..rows.end * shape.channels;
        let (x, out) = (&x.0[part.clone()], &mut out.0[part]);
        recurrent::short_conv(&self.pool, self.level, shape, &mut state.0, &weight.0, x, out);
    }

    fn delta_gates(&self, alpha: &mut CpuBuf, beta: &mut CpuBuf, a: &CpuBuf, dt_bias: &CpuBuf, rows: usize) {
        let n = rows * a.0.len();
        recurrent::delta_gates(&mut alpha.0[..n], &mut beta.0[..n], &a.0, &dt_bias.0);
    }

    fn delta_rule(
        &self,
        out: &mut CpuBuf,
        inputs: DeltaRows<'_, Self>,
        state: &mut CpuBuf,
        shape: DeltaShape,
        rows: Range<usize>,
    ) {
        let part = |n: usize| rows.start * n..rows.end * n;
        let gates = recurrent::DeltaInputs {
            decay: &inputs.decay.0[part(shape.n_v_heads)],
            rate: &inputs.rate.0[part(shape.n_v_heads)],
        };
        let qkv = &mut inputs.qkv.0[part(shape.channels())];
        let out = &mut out.0[part(shape.n_v_heads * shape.head_v_dim)];
        recurrent::delta_rule(&self.pool, self.level, shape, &mut state.0, qkv, gates, out);
    }

    fn page(&self, shape: KvShape) -> KvPage {
        KvPage::new(shape)
    }

    fn copy_page(&self, page: &KvPage) -> KvPage {
        page.clone()
    }

    fn store_kv(&self, page: &mut KvPage, slot: usize, k: &CpuBuf, v: &CpuBuf, rows: Range<usize>) {
        let row = page.shape().n_kv_heads * page.shape().head_dim;
        let part = rows.start * row..rows.end * row;
        page.store(&self.pool, slot, &k.0[part.clone()], &v.0[part]);
    }

    fn attend(
        &self,
        out: &mut CpuBuf,
        q: &CpuBuf,
        shape: AttendShape,
        segments: &[AttendSegment<'_, KvPage>],
    ) {
        let rows: usize = segments.iter().map(|s| s.positions.len()).sum();
        let n = rows * shape.n_heads * shape.head_dim;
        attention::attend(&self.pool, self.level, shape, segments, &q.0[..n], &mut out.0[..n]);
    }
}
