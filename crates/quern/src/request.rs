//! From messages or text to a generation.

use crate::{Error, Quern};
use quern_chat::{Message, OwnedSegment, RenderOptions};
use quern_engine::sampling::Overrides;
use quern_engine::{Generation, Prompt, Request};

/// What a request asks for besides its prompt.
#[derive(Clone, Debug, Default)]
pub struct RequestOptions {
    /// Sampling settings of the request's own. The rest comes from the file or from the model's family.
    pub sampling: Overrides,
    /// Most tokens to generate; None: until the model stops or the context is full.
    pub max_tokens: Option<usize>,
    /// Text that ends the answer, and is not part of it.
    pub stops: Vec<String>,
    /// Tokens that end the answer, beside the model's own.
    pub stop_ids: Vec<u32>,
    /// The model's own end tokens cannot be drawn.
    pub ignore_eos: bool,
    /// Report the log probability of every drawn token.
    pub logprobs: bool,
}

impl Quern {
    /// Answers a conversation, through the model's chat template at the present time.
    pub fn chat(&self, messages: &[Message], options: &RequestOptions) -> Result<Generation, Error> {
        self.generate(self.render(messages, &RenderOptions::default())?, options)
    }

    /// Continues a text, which is taken as plain: what spells a control token stays text.
    pub fn complete(&self, text: &str, options: &RequestOptions) -> Result<Generation, Error> {
        self.need_tokenizer()?;
        let segments = vec![OwnedSegment::Plain(text.into())];
        self.generate(Prompt::Text { segments, add_special: true }, options)
    }

    /// A conversation as a prompt. The beginning-of-text token is never doubled: the tokenizer adds it only where the
    /// template has not written it.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<Prompt, Error> {
        let template = self.template()?;
        let segments = template.render(messages, options)?;
        Ok(Prompt::Text { add_special: !template.emits_bos(&segments), segments })
    }

    /// Continues any prompt.
    pub fn generate(&self, prompt: Prompt, options: &RequestOptions) -> Result<Generation, Error> {
        let sampling = self.sampling(&options.sampling)?.resolved;
        // Checked here, so that a refusal comes before any work.
        sampling.validate().map_err(quern_engine::EngineError::from)?;
        let request = Request {
            prompt,
            sampling: sampling.params,
            max_tokens: options.max_tokens,
            stops: options.stops.clone(),
            stop_ids: options.stop_ids.clone(),
            ignore_eos: options.ignore_eos,
            logprobs: options.logprobs,
        };
        Ok(self.engine.submit(request)?)
    }
}
