//! The definition of a step, written for reading: every stage sorts everything and looks at everything.

use super::super::params::{Mirostat, SamplingParams};
use super::super::philox::{DrawAt, uniform};

/// A step's inputs besides the settings.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) logits: Vec<f32>,
    pub(super) generated: Vec<u32>,
    pub(super) exempt: Vec<u32>,
    pub(super) allowed: Option<Vec<bool>>,
    pub(super) choice: u32,
}

type Token = (f32, u32);

/// Sixteen lanes filled one after the other, then the tree; a lane without values is left out.
fn sum16(x: &[f32]) -> f32 {
    let mut level: Vec<Option<f32>> =
        (0..16).map(|l| x.iter().skip(l).step_by(16).copied().reduce(|a, b| a + b)).collect();
    while level.len() > 1 {
        let (low, high) = level.split_at(level.len() / 2);
        level = low
            .iter()
            .zip(high)
            .map(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(*b),
            })
            .collect();
    }
    level[0].unwrap_or(0.0)
}

fn sort(tokens: &mut [Token]) {
    tokens.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
}

/// Per token in the order given: probability and surprise; and the entropy.
fn softmax(tokens: &[Token], temperature: f32) -> (Vec<f32>, Vec<f32>, f32) {
    let max = tokens.iter().fold(f32::NEG_INFINITY, |m, t| m.max(t.0));
    let weight = |l: f32| libm::expf((l - max) / temperature);
    let mut by_id = tokens.to_vec();
    by_id.sort_by_key(|t| t.1);
    let mass = sum16(&by_id.iter().map(|t| weight(t.0)).collect::<Vec<_>>());
    let p = |l: f32| weight(l) / mass;
    let s = |l: f32| (libm::logf(mass) - (l - max) / temperature).min(f32::MAX);
    let entropy = sum16(&by_id.iter().map(|t| p(t.0) * s(t.0)).collect::<Vec<_>>());
    (tokens.iter().map(|t| p(t.0)).collect(), tokens.iter().map(|t| s(t.0)).collect(), entropy)
}

fn last(generated: &[u32], n: i32) -> Vec<u32> {
    let n = if n < 0 { generated.len() } else { generated.len().min(n as usize) };
    generated[generated.len() - n..].to_vec()
}

fn penalise(p: &SamplingParams, step: &Step, logits: &mut [f32]) {
    let window = last(&step.generated, p.repeat_last_n);
    for id in 0..logits.len() as u32 {
        let count = window.iter().filter(|g| **g == id).count();
        let l = &mut logits[id as usize];
        if count > 0 && !step.exempt.contains(&id) && *l != f32::NEG_INFINITY {
            *l = if *l <= 0.0 { *l * p.repeat_penalty } else { *l / p.repeat_penalty };
            *l = (*l - (count as f32 * p.frequency_penalty + p.presence_penalty)).min(f32::MAX);
        }
    }
}

pub(super) fn dry(p: &SamplingParams, step: &Step, logits: &mut [f32]) {
    let text = last(&step.generated, p.dry_penalty_last_n);
    let n = text.len();
    let breaks =
        |end: usize| p.dry_sequence_breakers.iter().any(|b| !b.is_empty() && text[..end].ends_with(b));
    let reach = (0..=n).rev().find(|end| breaks(*end)).map_or(n, |end| n - end);
    let allowed = p.dry_allowed_length as usize;
    if n <= allowed {
        return;
    }
    for id in 0..logits.len() as u32 {
        let common =
            |end: usize| (0..end).take_while(|i| text[end - 1 - i] == text[n - 1 - i]).count().min(reach);
        let longest = (1..n).filter(|end| text[*end] == id).map(common).max();
        let is_breaker = p.dry_sequence_breakers.contains(&vec![id]);
        let l = &mut logits[id as usize];
        if let Some(longest) = longest.filter(|longest| *longest >= allowed)
            && !is_breaker
            && !step.exempt.contains(&id)
            && *l != f32::NEG_INFINITY
        {
            *l -= p.dry_multiplier * libm::powf(p.dry_base, (longest - allowed) as f32);
        }
    }
}

/// The token a step must choose, and mirostat's state afterwards.
pub(super) fn choose(p: &SamplingParams, seed: u64, step: &Step, mut mu: f32) -> (Option<u32>, f32) {
    let mut logits = step.logits.clone();
    for (id, l) in logits.iter_mut().enumerate() {
        if step.allowed.as_ref().is_some_and(|allowed| !allowed[id]) {
            *l = f32::NEG_INFINITY;
        }
    }
    for (id, bias) in &p.logit_bias {
        logits[*id as usize] += bias;
    }
    penalise(p, step, &mut logits);
    if p.dry_multiplier > 0.0 {
        dry(p, step, &mut logits);
    }
    let mut tokens: Vec<Token> =
        logits.iter().copied().zip(0..).filter(|t| t.0 > f32::NEG_INFINITY).collect();
    sort(&mut tokens);
    if tokens.is_empty() || p.is_greedy() {
        return (tokens.first().map(|t| t.1), mu);
    }
    let at = |stage| DrawAt { generated_index: step.generated.len() as u32, choice: step.choice, stage };
    if p.mirostat == Mirostat::Off {
        truncate(p, &mut tokens, uniform(seed, at(1)));
    }
    let mut temperature = p.temperature;
    if p.dynatemp_range > 0.0 && tokens.len() > 1 {
        let (low, high) = ((p.temperature - p.dynatemp_range).max(0.0), p.temperature + p.dynatemp_range);
        let flatness = softmax(&tokens, 1.0).2 / libm::logf(tokens.len() as f32);
        temperature = low + (high - low) * libm::powf(flatness, p.dynatemp_exponent);
    }
    if p.mirostat != Mirostat::Off {
        mirostat(p, &mut tokens, temperature, mu, step.logits.len());
    }
    if temperature == 0.0 {
        return (Some(tokens[0].1), mu);
    }
    let weights: Vec<f32> = tokens.iter().map(|t| libm::expf((t.0 - tokens[0].0) / temperature)).collect();
    let total = weights.iter().fold(0.0f32, |sum, w| sum + w);
    let target = uniform(seed, at(0)) * total;
    let mut sum = 0.0f32;
    for (token, weight) in tokens.iter().zip(weights) {
        sum += weight;
        if sum > target {
            mu -= p.mirostat_eta * (-libm::log2f(weight / total) - p.mirostat_tau);
            return (Some(token.1), mu);
        }
    }
    panic!("the target lies below the last prefix sum");
}

fn truncate(p: &SamplingParams, tokens: &mut Vec<Token>, xtc_chance: f32) {
    let min_keep = p.min_keep as usize;
    if p.top_n_sigma > 0.0 {
        let mut by_id = tokens.clone();
        by_id.sort_by_key(|t| t.1);
        let n = tokens.len() as f32;
        let mean = sum16(&by_id.iter().map(|t| t.0).collect::<Vec<_>>()) / n;
        let variance = sum16(&by_id.iter().map(|t| (t.0 - mean) * (t.0 - mean)).collect::<Vec<_>>()) / n;
        let bound = tokens[0].0 - p.top_n_sigma * variance.sqrt();
        tokens.retain(|t| t.0 >= bound);
    }
    if p.top_k > 0 {
        tokens.truncate(p.top_k as usize);
    }
    if p.typical_p < 1.0 {
        let (probabilities, surprises, entropy) = softmax(tokens, 1.0);
        let mut order: Vec<_> = (0..tokens.len()).collect();
        let distance = |i: &usize| (surprises[*i] - entropy).abs();
        order.sort_by(|a, b| {
            distance(a).partial_cmp(&distance(b)).unwrap().then(tokens[*a].1.cmp(&tokens[*b].1))
        });
        let mut sum = 0.0;
        let mut kept = Vec::new();
        for i in order {
            sum += probabilities[i];
            kept.push(tokens[i]);
            if sum > p.typical_p && kept.len() >= min_keep {
                break;
            }
        }
        *tokens = kept;
        sort(tokens);
    }
    if p.top_p < 1.0 {
        let (probabilities, ..) = softmax(tokens, 1.0);
        let mut sum = 0.0;
        let mut n = 0;
        for probability in probabilities {
            sum += probability;
            n += 1;
            if sum >= p.top_p && n >= min_keep {
                break;
            }
        }
        tokens.truncate(n);
    }
    if p.min_p > 0.0 {
        let bound = tokens[0].0 + libm::logf(p.min_p);
        let n = tokens.iter().filter(|t| t.0 >= bound).count();
        tokens.truncate(n.max(min_keep).max(1));
    }
    if xtc_chance < p.xtc_probability && p.xtc_threshold <= 0.5 {
        let (probabilities, ..) = softmax(tokens, 1.0);
        let probable = probabilities.iter().take_while(|q| **q >= p.xtc_threshold).count();
        if probable >= 2 && tokens.len() - (probable - 1) >= min_keep {
            tokens.drain(..probable - 1);
        }
    }
}

fn mirostat(p: &SamplingParams, tokens: &mut Vec<Token>, temperature: f32, mu: f32, n_vocab: usize) {
    let n = if p.mirostat == Mirostat::V1 {
        let (mut tb, mut tt) = (0.0f32, 0.0f32);
        for i in 0..99.min(tokens.len() - 1) {
            let t = libm::logf((i + 2) as f32 / (i + 1) as f32);
            tb += t * ((tokens[i].0 - tokens[i + 1].0) / temperature);
            tt += t * t;
        }
        let s = tb / tt;
        let e = s - 1.0;
        libm::powf((e * libm::powf(2.0, mu)) / (1.0 - libm::powf(n_vocab as f32, -e)), 1.0 / s) as usize
    } else {
        let (_, surprises, _) = softmax(tokens, temperature);
        surprises.iter().take_while(|s| **s * std::f32::consts::LOG2_E <= mu).count()
    };
    tokens.truncate(n.max(1));
}
