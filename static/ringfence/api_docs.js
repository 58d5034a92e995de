"use strict";

// Writes of a logged-in user carry the CSRF token, like those of the pages.
function withToken(request) {
  const found = document.cookie.match(/(?:^|; )ringfence_csrf=([^;]+)/);
  if (found) request.headers["X-CSRFToken"] = found[1];
  return request;
}

const docs = document.getElementById("docs");
SwaggerUIBundle({ url: docs.dataset.schema, domNode: docs, deepLinking: true, requestInterceptor: withToken });
