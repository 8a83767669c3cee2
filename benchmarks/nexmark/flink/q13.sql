SELECT auction, bidder, price, dateTime, extra, side_value(MOD(auction, 10000)) FROM bid
