//! The forward pass: one for prefill, decode and scoring, and for every family.

use crate::delta_net::{DeltaBuffers, DeltaPass};
use crate::load::{Attention, Linear, MixerWeights, Model};
use crate::spec::{AttentionSpec, FeedForward, Mixer};
use crate::state::States;
use crate::{DenseSpec, ModelError};
use quern_backend::{
    Activation, AttendSegment, AttendShape, Backend, Batch, NormShape, PAGE_POSITIONS, Product, RopeShape,
    SeqId, Want,
};
use std::borrow::Cow;

/// Device buffers of a forward pass, kept from batch to batch and grown when a batch is larger than any before.
pub struct Workspace<B: Backend> {
    rows: usize,
    /// [rows, hidden]: the residual stream.
    x: B::Buf,
    /// [rows, hidden]: a norm's result.
    normed: B::Buf,
    /// [rows, hidden]: a block's result, before it joins the residual stream.
    block: B::Buf,
    /// [rows, n_heads, head_dim], twice where heads are normed.
    q: [B::Buf; 2],
    /// [rows, n_kv_heads, head_dim], twice where heads are normed.
    k: [B::Buf; 2],
    /// [rows, n_kv_heads, head_dim]
    v: B::Buf,
    /// [rows, n_heads, head_dim]
    attended: B::Buf,
    /// [rows, n_heads, head_dim]: the gate of what is attended, and what passes it.
    attention_gate: [B::Buf; 2],
    delta_net: Option<DeltaBuffers<B>>,
    /// [rows, width], three times.
    gate: B::Buf,
    up: B::Buf,
    gated: B::Buf,
    /// [rows, 2, dims/2] for each rope.
    tables: Vec<B::Buf>,
    /// [wanted rows, n_vocab]
    logits: B::Buf,
    n_logits: usize,
}

/// Rows of one sequence in a batch.
pub(crate) struct Rows {
    pub(crate) seq: SeqId,
    pub(crate) first_row: usize,
    pub(crate) positions: Vec<u32>,
}

impl<B: Backend> Workspace<B> {
    /// Buffers for batches of up to `rows` rows.
    pub fn new(model: &Model<B>, rows: usize) -> Workspace<B> {
        let spec = &model.spec;
        let (mut q, mut kv, mut gate, mut width) = (0, 0, 0, 0);
        for layer in &spec.layers {
            let FeedForward::Dense(dense) = &layer.feed_forward;
            if let Mixer::Attention(a) = &layer.mixer {
                q = q.max(a.n_heads * a.head_dim);
                kv = kv.max(a.n_kv_heads * a.head_dim);
                gate = if a.output_gate { q } else { gate };
            }
            width = width.max(dense.width);
        }
        let alloc = |cols: usize| model.backend.alloc(rows * cols);
        Workspace {
            rows,
            x: alloc(spec.hidden),
            normed: alloc(spec.hidden),
            block: alloc(spec.hidden),
            q: [alloc(q), alloc(q)],
            k: [alloc(kv), alloc(kv)],
            v: alloc(kv),
            attended: alloc(q),
            attention_gate: [alloc(gate), alloc(gate)],
            delta_net: DeltaBuffers::new(&*model.backend, spec, rows),
            gate: alloc(width),
            up: alloc(width),
            gated: alloc(width),
            tables: spec.ropes.iter().map(|r| alloc(r.dims)).collect(),
            logits: model.backend.alloc(spec.n_vocab),
            n_logits: 0,
        }
    }

    /// The logits of the last batch: one row of n_vocab for each row that wanted them.
    pub fn logits<'a>(&'a self, model: &Model<B>) -> Cow<'a, [f32]> {
        model.backend.read(&self.logits, 0..self.n_logits * model.spec.n_vocab)
    }
}

impl<B: Backend> Model<B> {
    /// Runs a batch: its rows join their sequences' states, and the rows that want logits get them, in row order, in
    /// the workspace. On an error no state has advanced; one with recurrent layers, which cannot take rows back, is refused
    /// from then on until it is truncated to nothing.
    pub fn forward(
        &self,
        ws: &mut Workspace<B>,
        batch: &Batch,
        states: &mut States<B>,
    ) -> Result<(), ModelError> {
        let segments = self.check(batch, states)?;
        let done = self.layers(ws, batch, &segments, states).and_then(|()| self.head(ws, batch));
        for segment in &segments {
            let state = states.get_mut(segment.seq)?;
            match done {
                Ok(()) => state.advance(segment.positions.len()),
                Err(_) => state.fail(),
            }
        }
        done
    }

    /// All layers: the residual stream of the batch, and its sequences' states.
    fn layers(
        &self,
        ws: &mut Workspace<B>,
        batch: &Batch,
        segments: &[Rows],
        states: &mut States<B>,
    ) -> Result<(), ModelError> {
        let rows = batch.rows();
        if rows > ws.rows {
            *ws = Workspace::new(self, rows);
        }
        let backend = &*self.backend;
        let spec = &self.spec;

        let ids: Vec<u32> = batch.segments.iter().flat_map(|s| &s.tokens).copied().collect();
        backend.embed(&mut ws.x, &self.embedding, &ids, spec.embedding_scale);
        for (angles, table) in self.ropes.iter().zip(&mut ws.tables) {
            let mut values = Vec::new();
            segments.iter().flat_map(|s| &s.positions).for_each(|p| angles.row(*p, &mut values));
            backend.write(table, &values);
        }
        for (l, layer) in self.layers.iter().enumerate() {
            let FeedForward::Dense(dense) = &spec.layers[l].feed_forward;
            match (&spec.layers[l].mixer, &layer.mixer) {
                (Mixer::Attention(spec), MixerWeights::Attention(weights)) => {
                    self.attention(ws, (l, spec, weights), rows, segments, states)?;
                }
                (Mixer::DeltaNet(spec), MixerWeights::DeltaNet(weights)) => {
                    let Some(buffers) = &mut ws.delta_net else { unreachable!("made for this spec") };
                    let norm_eps = self.spec.norm_eps;
                    backend.rms_norm(&mut ws.normed, &ws.x, &layer.attention_norm, rows, norm_eps);
                    let pass = DeltaPass { backend, layer: l, spec, weights, rows, norm_eps };
                    pass.run(buffers, &ws.normed, &mut ws.block, segments, states)?;
                }
                _ => unreachable!("weights are bound by the spec"),
            }
            self.join(ws, layer.post_attention_norm.as_ref(), rows);
            self.dense(ws, l, dense, rows)?;
            self.join(ws, layer.post_feed_forward_norm.as_ref(), rows);
        }
        Ok(())
    }

    /// Checks a batch against the vocabulary and the states, before anything is touched.
    fn check(&self, batch: &Batch, states: &States<B>) -> Result<Vec<Rows>, ModelError> {
        let mut first_row = 0;
        let mut segments: Vec<Rows> = Vec::with_capacity(batch.segments.len());
        for segment in &batch.segments {
            let state = states.get(segment.seq)?;
            if state.is_lost() {
                let reason = "lost its recurrent state in a batch that failed: it must begin again".into();
                return Err(ModelError::Sequence { seq: segment.seq.0, reason });
            }
            let sequence = |reason: String| Err(ModelError::Sequence { seq: segment.seq.0, reason });
            if segment.first_pos as usize != state.len() {
                return sequence(format!(
                    "holds {} positions, the batch begins at {}",
                    state.len(),
                    segment.first_pos
                ));
            }
            if segment.tokens.is_empty() || segments.iter().any(|s| s.seq == segment.seq) {
                return sequence("must have one segment of at least one token".into());
            }
            if state.len() + segment.tokens.len() > state.context() {
                return Err(ModelError::Context { position: state.context(), context: state.context() });
            }
            let n_vocab = self.spec.n_vocab;
            if let Some(&id) = segment.tokens.iter().find(|id| **id as usize >= n_vocab) {
                return Err(ModelError::Token { id, n_vocab });
            }
            let positions = (segment.first_pos..).take(segment.tokens.len()).collect();
            segments.push(Rows { seq: segment.seq, first_row, positions });
            first_row += segment.tokens.len();
        }
        Ok(segments)
    }

    /// `block = W_o attend(rope(norm(q)), rope(norm(k)), v)` of the normed residual stream.
    fn attention(
        &self,
        ws: &mut Workspace<B>,
        (l, spec, weights): (usize, &AttentionSpec, &Attention<B>),
        rows: usize,
        segments: &[Rows],
        states: &mut States<B>,
    ) -> Result<(), ModelError> {
        let backend = &*self.backend;
        let layer = &self.layers[l];
        let in_layer = |source| ModelError::Layer { layer: l, source };
        let [gate, gated] = &mut ws.attention_gate;
        let [q, normed_q] = &mut ws.q;
        let [k, normed_k] = &mut ws.k;
        let norm = NormShape { weight: &layer.attention_norm, rows, eps: self.spec.norm_eps };
        let mut products = vec![weights.q.product(q), weights.k.product(k), weights.v.product(&mut ws.v)];
        products.extend(weights.gate.as_ref().map(|weight| weight.product(gate)));
        backend.norm_linear(&mut ws.normed, &ws.x, norm, &mut products).map_err(in_layer)?;

        let (q, k) = match (&weights.q_norm, &weights.k_norm) {
            (Some(q_norm), Some(k_norm)) => {
                backend.rms_norm(normed_q, q, q_norm, rows * spec.n_heads, self.spec.norm_eps);
                backend.rms_norm(normed_k, k, k_norm, rows * spec.n_kv_heads, self.spec.norm_eps);
                (normed_q, normed_k)
            }
            _ => (q, k),
        };
        let rope = &self.spec.ropes[spec.rope];
        let turn =
            |n_heads| RopeShape { n_heads, head_dim: spec.head_dim, dims: rope.dims, pairs: rope.pairs };
        backend.rope(q, &ws.tables[spec.rope], rows, turn(spec.n_heads));
        backend.rope(k, &ws.tables[spec.rope], rows, turn(spec.n_kv_heads));

        for segment in segments {
            let kv = states.get_mut(segment.seq)?.layers[l].kv_mut();
            let mut row = segment.first_row;
            let mut position = segment.positions[0] as usize;
            let end = position + segment.positions.len();
            while position < end {
                let (page, slot) = (position / PAGE_POSITIONS, position % PAGE_POSITIONS);
                let n = (PAGE_POSITIONS - slot).min(end - position);
                backend.store_kv(kv.page_mut(backend, page), slot, k, &ws.v, row..row + n);
                (row, position) = (row + n, position + n);
            }
        }
        let mut attended = Vec::with_capacity(segments.len());
        for segment in segments {
            let kv = states.get(segment.seq)?.layers[l].kv();
            attended.push(AttendSegment {
                pages: kv.pages(),
                first_row: segment.first_row,
                positions: &segment.positions,
            });
        }
        let shape = AttendShape {
            n_heads: spec.n_heads,
            n_kv_heads: spec.n_kv_heads,
            head_dim: spec.head_dim,
            scale: spec.scale,
            softcap: spec.softcap,
            window: spec.window,
        };
        backend.attend(&mut ws.attended, q, shape, &attended);
        let attended = if weights.gate.is_some() {
            let len = rows * spec.n_heads * spec.head_dim;
            backend.act_mul(Activation::Sigmoid, gated, gate, &ws.attended, len);
            &*gated
        } else {
            &ws.attended
        };
        backend.linear(attended, rows, &mut [weights.output.product(&mut ws.block)]).map_err(in_layer)
    }

    /// `block = W_down (act(W_gate h) * (W_up h))` of the normed residual stream h.
    fn dense(
        &self,
        ws: &mut Workspace<B>,
        l: usize,
        spec: &DenseSpec,
        rows: usize,
    ) -> Result<(), ModelError> {
        let backend = &*self.backend;
        let layer = &self.layers[l];
        let in_layer = |source| ModelError::Layer { layer: l, source };
        let weights = &layer.feed_forward;
        let norm = NormShape { weight: &layer.feed_forward_norm, rows, eps: self.spec.norm_eps };
        let mut products = [weights.gate.product(&mut ws.gate), weights.up.product(&mut ws.up)];
        backend.norm_linear(&mut ws.normed, &ws.x, norm, &mut products).map_err(in_layer)?;
        backend.act_mul(spec.activation, &mut ws.gated, &ws.gate, &ws.up, rows * spec.width);
        backend.linear(&ws.gated, rows, &mut [weights.down.product(&mut ws.block)]).map_err(in_layer)
    }

    /// `x += block`, normed first where the layer says so.
    fn join(&self, ws: &mut Workspace<B>, norm: Option<&B::Buf>, rows: usize) {
        let backend = &*self.backend;
        let block = match norm {
            Some(weight) => {
                backend.rms_norm(&mut ws.normed, &ws.block, weight, rows, self.spec.norm_eps);
                &ws.normed
            }
            None => &ws.block,
        };
        backend.add(&mut ws.x, block, rows * self.spec.hidden);
    }

    /// Logits of the rows that want them.
    fn head(&self, ws: &mut Workspace<B>, batch: &Batch) -> Result<(), ModelError> {
        let (backend, spec) = (&*self.backend, &self.spec);
        let mut wanted: Vec<u32> = Vec::new();
        let mut row = 0;
        for segment in &batch.segments {
            let end = row + segment.tokens.len() as u32;
            match segment.want {
                Want::None => {}
                Want::Last => wanted.push(end - 1),
                Want::All => wanted.extend(row..end),
            }
            row = end;
        }
        ws.n_logits = wanted.len();
        if wanted.is_empty() {
            return Ok(());
        }
        let n = wanted.len() * spec.n_vocab;
        if backend.capacity(&ws.logits) < n {
            ws.logits = backend.alloc(n);
        }
        backend.gather(&mut ws.block, &ws.x, &wanted, spec.hidden);
        let norm = NormShape { weight: &self.output_norm, rows: wanted.len(), eps: spec.norm_eps };
        let mut product = [match &self.head {
            Some(head) => head.product(&mut ws.logits),
            None => Product { weight: &self.embedding, scale: None, bias: None, out: &mut ws.logits },
        }];
        backend.norm_linear(&mut ws.normed, &ws.block, norm, &mut product)?;
        if let Some(cap) = spec.final_softcap {
            backend.softcap(&mut ws.logits, cap, n);
        }
        Ok(())
    }
}

impl<B: Backend> Linear<B> {
    pub(crate) fn product<'a>(&'a self, out: &'a mut B::Buf) -> Product<'a, B> {
        Product { weight: &self.weight, scale: self.scale, bias: self.bias.as_ref(), out }
    }
}
