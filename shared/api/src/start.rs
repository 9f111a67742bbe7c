//! Starting runs.

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_engine::Engine;

use crate::{
    body::{self, StartBody},
    call::Call,
    problem::{Problem, Reply},
    routes::{self, Endpoint},
    view,
};

pub(crate) async fn handle(engine: &Engine, request: &ApiGatewayProxyRequest) -> Result<Reply, Problem> {
    let (endpoint, id) = routes::find(request)?;
    let Endpoint::Start = endpoint else { return Err(routes::elsewhere(endpoint)) };
    let call = Call::read(engine, request, id)?;
    let start = body::parse::<StartBody>(&call.body)?.checked()?;
    let started = engine.start(&call.by, start, call.key.as_ref()).await?;
    // 202: the run is stored; a step will drive it.
    Ok(Reply::accepted(&view::started(&started)))
}
