#ifndef FERMATA_SERVER_PAGE_ROUTES_H_
#define FERMATA_SERVER_PAGE_ROUTES_H_

#include "server/calls/front.h"
#include "server/http/router.h"

namespace fermata {

// Adds the page: GET /, and what it is made of under /page/. The files are part of the binary and
// come with an ETag, so that a browser which has them is told 304; the page may load nothing from
// elsewhere, and speaks to the server by its public HTTP calls alone.
void AddPageRoutes(const Front& front, HttpRouter& router);

}  // namespace fermata

#endif  // FERMATA_SERVER_PAGE_ROUTES_H_
