//! Starting runs, and forking them.

use aws_lambda_events::apigw::ApiGatewayProxyRequest;
use dormouse_engine::Engine;

use crate::{
    body::{self, ForkBody, StartBody},
    call::Call,
    problem::{Problem, Reply},
    routes::{self, Endpoint},
    view,
};

pub(crate) async fn handle(engine: &Engine, request: &ApiGatewayProxyRequest) -> Result<Reply, Problem> {
    let (endpoint, id) = routes::find(request)?;
    let forks = match endpoint {
        Endpoint::Start => false,
        Endpoint::Fork => true,
        Endpoint::Respond(_) | Endpoint::Control(_) | Endpoint::Revoke | Endpoint::Query(_) => {
            return Err(routes::elsewhere(endpoint));
        }
    };
    let call = Call::read(engine, request, id)?;
    let started = if forks {
        let from = call.run_id()?;
        let fork = body::parse::<ForkBody>(&call.body)?.checked()?;
        engine.fork(&call.by, &from, fork, call.key.as_ref()).await?
    } else {
        let start = body::parse::<StartBody>(&call.body)?.checked()?;
        engine.start(&call.by, start, call.key.as_ref()).await?
    };
    // 202: the run is stored; a step will drive it.
    Ok(Reply::accepted(&view::started(&started)))
}
