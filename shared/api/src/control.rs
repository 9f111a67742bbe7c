//! Changing runs from outside.

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_domain::{decide::MAX_TEXT_BYTES, message::Content};
use dormouse_engine::Engine;

use crate::{
    body::{self, CancelBody, MessageBody, ModeBody, NoBody},
    call::Call,
    problem::{Kind, Problem, Reply},
    routes::{self, Control, Endpoint},
    view,
};

pub(crate) async fn handle(engine: &Engine, request: &ApiGatewayProxyRequest) -> Result<Reply, Problem> {
    let (endpoint, id) = routes::find(request)?;
    let call = Call::read(engine, request, id)?;
    match endpoint {
        Endpoint::Control(change) => change_run(engine, &call, change).await,
        Endpoint::Revoke => {
            let NoBody {} = body::parse(&call.body)?;
            Ok(Reply::ok(&view::rule(&engine.revoke(&call.by, call.rule_id()).await?)))
        }
        Endpoint::Start | Endpoint::Fork | Endpoint::Respond(_) | Endpoint::Query(_) => {
            Err(routes::elsewhere(endpoint))
        }
    }
}

async fn change_run(engine: &Engine, call: &Call<'_>, change: Control) -> Result<Reply, Problem> {
    let (by, run, key) = (&call.by, &call.run_id()?, call.key.as_ref());
    let changed = match change {
        Control::Message => {
            let body: MessageBody = body::parse(&call.body)?;
            engine.add_message(by, run, vec![Content::text(body.text)], key).await?
        }
        Control::Pause => {
            let NoBody {} = body::parse(&call.body)?;
            engine.pause(by, run, key).await?
        }
        Control::Resume => {
            let NoBody {} = body::parse(&call.body)?;
            engine.resume(by, run, key).await?
        }
        Control::Cancel => {
            let body: CancelBody = body::parse(&call.body)?;
            if body.reason.as_ref().is_some_and(|reason| reason.len() > MAX_TEXT_BYTES) {
                let detail = format!("`reason` takes at most {MAX_TEXT_BYTES} bytes");
                return Err(Problem::new(Kind::InvalidBody, detail).member("field", "reason"));
            }
            engine.cancel(by, run, body.reason, key).await?
        }
        Control::Mode => {
            let body: ModeBody = body::parse(&call.body)?;
            engine.set_mode(by, run, body.mode, key).await?
        }
    };
    Ok(Reply::ok(&view::changed(&changed)))
}
